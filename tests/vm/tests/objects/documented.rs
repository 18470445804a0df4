//! The commands of docs/objects.md, with objects like those that it names.

use vm_tests::pages::Page;

#[test]
fn commands_of_the_page_about_objects_run() {
    let page = Page::of("objects.md");
    page.copy("/object_count.o", "count.o");
    page.copy("/object_tools.o", "tools.o");
    page.run(4);
}
