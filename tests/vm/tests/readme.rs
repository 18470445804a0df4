//! The command lines that a reader meets first: those of README.md and of the tutorial.

use vm_tests::pages::Page;

#[test]
fn commands_of_the_readme_run() {
    Page::of("README.md").run(8);
}

#[test]
fn commands_of_the_tutorial_run() {
    let page = Page::of("tutorial.md");
    page.script("deploy", "sleep 0.1");
    page.run(12);
}
