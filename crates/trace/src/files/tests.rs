//! Tests of trust in files: which paths are trusted, and which folders root writes to.

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
    let message = objects_to(&file).unwrap();
    assert!(
        message.starts_with(file.to_str().unwrap()) && message.contains("others"),
        "{message}"
    );
    set_mode(&file, 0o600);
    set_mode(&place, 0o777);
    let message = objects_to(&file).unwrap();
    assert!(message.starts_with(&format!("{}:", place.display())), "{message}");
    set_mode(&place, 0o1777);
    assert_eq!(objects_to(&file), None);
    if !root() {
        return;
    }
    chown(&file, Some(EVE), None).unwrap();
    assert!(objects_to(&file).unwrap().contains("another user (1000)"));
}

#[test]
fn links_of_others_are_reported_and_not_written_through() {
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
    let message = objects_to(&through).unwrap();
    assert!(
        message.contains("symbolic link of another user (1000)"),
        "{message}"
    );
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
fn devices_and_directories_are_not_opened_but_an_inherited_pipe_is() {
    let message = |path: &str| open(Path::new(path)).unwrap_err().to_string();
    assert_eq!(message("/dev/zero"), "it is no file but a device");
    assert_eq!(message("/"), "it is no file but a directory");
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

/// A process with a mount namespace of its own, in which another folder is at a path; it ends when its input is closed.
struct Elsewhere {
    child: std::process::Child,
    root: PathBuf,
}

impl Elsewhere {
    /// None where this test may not make one.
    fn with(place: &Path, script: &str) -> Option<Self> {
        use std::io::{BufRead as _, BufReader};
        use std::process::Stdio;
        let script =
            format!("mount -t tmpfs none \"$0\" && cd \"$0\" && {{ {script}\n}} && echo ready && read end");
        let mut child = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .arg(place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let bytes_read = BufReader::new(child.stdout.take()?).read_line(&mut line);
        if bytes_read.is_err() || line != "ready\n" {
            let _ = child.wait();
            println!("skipped: no mounts of its own here");
            return None;
        }
        let root = PathBuf::from(format!("/proc/{}/root", child.id()));
        Some(Self { child, root })
    }

    /// A path as that process sees it.
    fn path(&self, place: &Path, name: &str) -> PathBuf {
        let below = place.strip_prefix("/").unwrap();
        self.root.join(below).join(name)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn text_of(mut opened: Opened) -> String {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut opened.file, &mut text).unwrap();
    text
}

#[test]
fn nothing_leads_out_of_another_process_s_tree_and_nothing_in_it_is_trusted() {
    if !root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let place = fs::canonicalize(place.path()).unwrap();
    fs::write(place.join("target"), "ours").unwrap();
    let script = "echo theirs > target; ln -s \"$0/target\" absolute; ln -s \"../../../../../../../..$0/target\" up; ln -s target beside
        ln -s /proc/1/root/etc magic; ln -s /proc/self/fd/0 handed; ln -s /proc/version kernel; mkfifo pipe; mknod device c 1 5; ln -s device link";
    let Some(other) = Elsewhere::with(&place, script) else {
        return;
    };
    let entered = fs::File::open(&other.root).unwrap();
    for name in ["target", "absolute", "up", "beside"] {
        let opened = open(&other.path(&place, name)).unwrap();
        assert!(
            opened.path.starts_with(&other.root),
            "{name}: {}",
            opened.path.display()
        );
        let message = opened.objection.clone().map(|it| it.to_string());
        assert!(message.unwrap().contains("another process's tree"), "{name}");
        assert_eq!(text_of(opened), "theirs\n", "{name}");
        let opened = open_in(&entered, &place.join(name)).unwrap();
        assert!(opened.objection.is_some(), "{name}");
        assert_eq!(text_of(opened), "theirs\n", "{name}");
    }
    for (name, why) in [
        ("magic/passwd", "link of /proc"),
        ("handed", "link of /proc"),
        ("kernel", "answer of the kernel"),
        ("pipe", "pipe"),
        ("device", "device"),
        ("link", "device"),
    ] {
        // None of these waits, a pipe without a writer neither.
        let message = open(&other.path(&place, name)).unwrap_err().to_string();
        assert!(message.contains(why), "{name}: {message}");
        let message = open_in(&entered, &place.join(name)).unwrap_err().to_string();
        assert!(message.contains(why), "{name}: {message}");
    }
    for name in ["target", "new"] {
        let refused = create(&other.path(&place, name), 0o600).unwrap_err();
        assert!(
            refused.to_string().contains("another process's tree"),
            "{refused}"
        );
        let refused = Folder::above(&other.path(&place, name), true).unwrap_err();
        assert!(
            refused.to_string().contains("another process's tree"),
            "{refused}"
        );
    }
}

#[test]
fn where_others_choose_no_pipe_is_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let place = fs::canonicalize(place.path()).unwrap();
    let pipe = place.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    symlink("pipe", place.join("link")).unwrap();
    fs::write(place.join("file"), "text").unwrap();
    for name in ["pipe", "link"] {
        let message = open_ordinary(&place.join(name)).unwrap_err().to_string();
        assert_eq!(message, "it is no file but a pipe", "{name}");
    }
    assert_eq!(text_of(open_ordinary(&place.join("file")).unwrap()), "text");
}

#[test]
fn a_process_of_our_own_tree_is_at_our_root() {
    let place = tempfile::tempdir().unwrap();
    let file = fs::canonicalize(place.path()).unwrap().join("file");
    fs::write(&file, "ours").unwrap();
    let opened = open(&Path::new("/proc/self/root").join(file.strip_prefix("/").unwrap())).unwrap();
    assert_eq!(
        (opened.path.as_path(), opened.objection.is_none()),
        (file.as_path(), true)
    );
    assert_eq!(text_of(opened), "ours");
}
