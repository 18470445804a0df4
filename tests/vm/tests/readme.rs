//! The command lines of README.md.

use vm_tests::pages::Page;

#[test]
fn commands_of_the_readme_run() {
    Page::of("README.md").run(8);
}

#[test]
fn commands_of_the_table_of_habits_run() {
    let page = Page::of("README.md");
    page.write("script.bt", "begin { exit() }\n");
    page.write(
        "table.kst",
        "table main { sched:sched_process_exit { record() } }\n",
    );
    page.run_tables(20);
}
