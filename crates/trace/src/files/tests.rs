use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::process::Command;

const EVE: u32 = 1000;

fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root can make files of other users");
    }
    root
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn objects_to(path: &Path) -> Option<String> {
    open(path)
        .unwrap()
        .objection
        .map(|objection| objection.to_string())
}

#[test]
fn a_file_is_trusted_where_only_root_and_the_caller_could_write_or_move_it() {
    let place = tempfile::tempdir().unwrap();
    let place = fs::canonicalize(place.path()).unwrap();
    let file = place.join("file");
    fs::write(&file, "text").unwrap();
    assert_eq!(objects_to(&file), None, "a sticky /tmp above is no objection");
    set_mode(&file, 0o620);
    let said = objects_to(&file).unwrap();
    assert!(
        said.starts_with(file.to_str().unwrap()) && said.contains("others"),
        "{said}"
    );
    set_mode(&file, 0o600);
    set_mode(&place, 0o777);
    let said = objects_to(&file).unwrap();
    assert!(said.starts_with(&format!("{}:", place.display())), "{said}");
    set_mode(&place, 0o1777);
    assert_eq!(objects_to(&file), None);
    if !root() {
        return;
    }
    chown(&file, Some(EVE), None).unwrap();
    assert!(objects_to(&file).unwrap().contains("another user (1000)"));
}

#[test]
fn links_of_others_are_told_and_nothing_is_written_through_them() {
    if !root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let place = fs::canonicalize(place.path()).unwrap();
    let (target, file) = (place.join("target"), place.join("target/file"));
    fs::create_dir(&target).unwrap();
    fs::write(&file, "text").unwrap();
    let link = place.join("link");
    symlink("target/../target", &link).unwrap();
    let through = link.join("file");
    assert_eq!(objects_to(&through), None, "our own link");
    assert_eq!(open(&through).unwrap().path, file);
    create(&through, 0o600).unwrap();
    assert!(fs::read(&file).unwrap().is_empty());
    std::os::unix::fs::lchown(&link, Some(EVE), None).unwrap();
    let said = objects_to(&through).unwrap();
    assert!(said.contains("symbolic link of another user (1000)"), "{said}");
    for refused in [
        create(&through, 0o600).map(drop),
        create(&link.join("new"), 0o600).map(drop),
        Folder::find(&through.with_file_name("")).map(drop),
        Folder::above(&link.join("new"), true).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    }
    assert!(!target.join("new").exists());
    // A file of another user's is not written over.
    chown(&file, Some(EVE), None).unwrap();
    assert!(
        create(&file, 0o600)
            .unwrap_err()
            .to_string()
            .contains("another user")
    );
}

#[test]
fn a_program_is_roots_or_the_users_who_runs_it() {
    if !root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    let program = place.path().join("program");
    fs::write(&program, "").unwrap();
    assert_eq!(objection(&program, EVE).unwrap(), None);
    chown(&program, Some(EVE), None).unwrap();
    assert_eq!(objection(&program, EVE).unwrap(), None);
    assert!(objection(&program, 0).unwrap().is_some() && objection(&program, 1001).unwrap().is_some());
    assert!(objection(&place.path().join("none"), 0).is_err());
}

#[test]
fn links_that_lead_in_circles_end() {
    let place = tempfile::tempdir().unwrap();
    symlink("b", place.path().join("a")).unwrap();
    symlink("a", place.path().join("b")).unwrap();
    let error = open(&place.path().join("a")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
    assert_eq!(
        open(&place.path().join("c")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        open(&place.path().join("c/d")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

#[test]
fn what_has_no_end_is_not_opened_and_what_is_open_already_is() {
    let said = |path: &str| open(Path::new(path)).unwrap_err().to_string();
    assert_eq!(said("/dev/zero"), "it is no file but a device");
    assert_eq!(said("/"), "it is no file but a directory");
    let (reader, _writer) = io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    assert_eq!(
        open(Path::new(&path)).unwrap().objection,
        None,
        "what the caller opened"
    );
}

#[test]
fn a_folder_of_others_is_refused_to_root() {
    if !root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (above, leaf) = Folder::above(&place.path().join("a/b/c"), true).unwrap();
    assert_eq!(
        (above.path().file_name().unwrap(), leaf.as_os_str()),
        ("b".as_ref(), "c".as_ref())
    );
    let made = above.own_folder(&leaf).unwrap();
    assert_eq!(
        made.path().metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    set_mode(made.path(), 0o770);
    assert!(
        above
            .own_folder(&leaf)
            .unwrap_err()
            .to_string()
            .contains("chmod go-w")
    );
    set_mode(made.path(), 0o755);
    above.own_folder(&leaf).unwrap();
    chown(made.path(), Some(EVE), None).unwrap();
    assert!(
        above
            .own_folder(&leaf)
            .unwrap_err()
            .to_string()
            .contains("another user (1000)")
    );
    // One that is put where the folder was about to be made.
    symlink("/etc", above.path().join("l")).unwrap();
    assert!(above.own_folder("l").is_err());
}

#[test]
fn the_user_of_files_is_this_threads() {
    let own = Command::new("id").arg("-u").output().unwrap().stdout;
    assert_eq!(user().to_string(), String::from_utf8(own).unwrap().trim());
}
