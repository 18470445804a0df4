//! Programs that read what arguments of system calls point to: over a recording of all calls they print what they print live.

use std::path::Path;

#[test]
fn a_recording_of_calls_prints_the_programs_live_output() {
    let folder = Path::new("/tmp/snoops");
    let made = std::fs::create_dir_all(folder);
    assert!(made.is_ok(), "{made:?}");
    let compared = testkit::snoops::compare(Path::new("kestrel"), folder);
    let lines = compared.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lines.live, lines.later);
    for (word, least) in testkit::snoops::MIN {
        let count = lines.live.iter().filter(|line| line.starts_with(word)).count();
        assert!(count >= *least, "{count} of {word}: {:#?}", lines.live);
    }
}
