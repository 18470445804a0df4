//! Writing: a trace is readable at every moment, and a full disk leaves whole packets.

use crate::pages::Ring;
use crate::sample;
use kestrel_trace::Error;
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::packet::seal;
use kestrel_trace::ctf::write::{Folder, StreamFile, Writer};
use kestrel_trace::decode::EventTable;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;

pub fn sealed(ring: &mut Ring) -> Vec<u8> {
    let table = EventTable::new(sample::info().events);
    seal(ring.pages.last_mut().unwrap(), &table).unwrap();
    ring.bytes()
}

/// The sample as a directory, pages in two appends.
pub fn write(path: &Path, each: u64) {
    let mut writer = directory::create(path, sample::info(), false).unwrap();
    for mut stream in sample::streams(each) {
        let bytes = sealed(&mut stream.ring);
        let (first, rest) = bytes.split_at(4096);
        writer.append(stream.buffer, stream.cpu, first).unwrap();
        writer.append(stream.buffer, stream.cpu, rest).unwrap();
    }
    let written = writer
        .finish(&sample::summary(), &sample::symbols(), &sample::processes())
        .unwrap();
    assert_eq!(written.streams, 3);
    assert_eq!(written.bytes, written.packets * 4096);
}

type Files = Rc<RefCell<BTreeMap<String, Vec<u8>>>>;

/// A disk with room for so many bytes, that takes at most 1000 at once.
struct Disk {
    files: Files,
    room: Rc<RefCell<usize>>,
}

struct DiskFile {
    name: String,
    files: Files,
    room: Rc<RefCell<usize>>,
}

impl Folder for Disk {
    type File = DiskFile;

    fn create(&mut self, name: &str) -> Result<DiskFile, Error> {
        self.files.borrow_mut().insert(name.into(), Vec::new());
        Ok(DiskFile {
            name: name.into(),
            files: self.files.clone(),
            room: self.room.clone(),
        })
    }

    fn replace(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.files.borrow_mut().insert(name.into(), bytes.to_vec());
        Ok(())
    }
}

impl io::Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut room = self.room.borrow_mut();
        let taken = bytes.len().min(1000).min(*room);
        if taken == 0 {
            return Err(io::Error::from_raw_os_error(28));
        }
        *room -= taken;
        self.files
            .borrow_mut()
            .get_mut(&self.name)
            .unwrap()
            .extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StreamFile for DiskFile {
    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.files
            .borrow_mut()
            .get_mut(&self.name)
            .unwrap()
            .truncate(bytes as usize);
        Ok(())
    }
}

#[test]
fn a_full_disk_leaves_whole_packets_and_says_how_many() {
    let files = Files::default();
    let disk = Disk {
        files: files.clone(),
        room: Rc::new(RefCell::new(10_000)),
    };
    let mut writer = Writer::create(disk, sample::info()).unwrap();
    let bytes = sealed(&mut sample::streams(300).remove(0).ring);
    assert!(bytes.len() > 4 * 4096);
    writer.append(0, 0, &bytes[..4096]).unwrap();
    let error = writer.append(0, 0, &bytes[4096..4 * 4096]).unwrap_err();
    assert_eq!(error.errno(), Some(28));
    let text = error.to_string();
    assert!(
        text.contains("main_0") && text.contains("2 whole packets were kept") && text.contains("2 were not"),
        "{text}"
    );
    assert_eq!(files.borrow()["main_0"], bytes[..2 * 4096]);
    assert_eq!(writer.written().packets, 2);
}

#[test]
fn an_occupied_directory_is_left_alone_and_an_old_trace_is_replaced_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    write(&path, 300);
    assert!(matches!(
        directory::create(&path, sample::info(), false),
        Err(Error::Occupied { .. })
    ));
    for leftover in [".metadata.new", ".kestrel/.symbols.new"] {
        std::fs::write(path.join(leftover), "half").unwrap();
    }
    directory::create(&path, sample::info(), true).unwrap();
    assert_eq!(names(&path), ["metadata"]);
}

#[test]
fn a_directory_left_by_a_writer_killed_before_its_metadata_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    for left in ["", "/* CTF", "/* CTF 1.8 */\ntyp"] {
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(".metadata.new"), left).unwrap();
        assert!(directory::is_free(&path).unwrap(), "{left:?}");
        directory::create(&path, sample::info(), false).unwrap();
        assert_eq!(names(&path), ["metadata"]);
        std::fs::remove_dir_all(&path).unwrap();
        // A whole trace takes its place, too.
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(".metadata.new"), left).unwrap();
        let beside = directory::staging_path(&path);
        write(&beside, 300);
        directory::publish(&beside, &path).unwrap();
        assert!(names(&path).contains(&"metadata".to_owned()));
        std::fs::remove_dir_all(&path).unwrap();
    }
    // Somebody else's file of that name is, and so is anything beside it.
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join(".metadata.new"), "mine").unwrap();
    assert!(!directory::is_free(&path).unwrap());
    std::fs::write(path.join(".metadata.new"), "").unwrap();
    std::fs::write(path.join("notes"), "mine").unwrap();
    assert!(!directory::is_free(&path).unwrap());
    assert!(matches!(
        directory::create(&path, sample::info(), true),
        Err(Error::Occupied { .. })
    ));
}

fn names(path: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_trace_is_not_replaced_when_foreign_files_lie_in_its_directory() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    write(&path, 300);
    let before = names(&path);
    assert!(before.len() > 2, "{before:?}");
    let records = directory::open(&path).unwrap().report(None).unwrap().records;
    assert!(records > 0);
    let crooked = std::ffi::OsStr::from_bytes(b"\xff_1");
    // A file, one named as a stream is, one within the trace's own folder, one whose name is no text; folders.
    let files = ["notes.txt", "results_2024", ".kestrel/more"].map(std::path::PathBuf::from);
    let folders = ["export", "main_77"].map(std::path::PathBuf::from);
    for name in files.iter().chain([&crooked.into()]).chain(&folders) {
        let mine = path.join(name);
        if folders.contains(name) {
            std::fs::create_dir(&mine).unwrap();
        } else {
            std::fs::write(&mine, "precious").unwrap();
        }
        let refused = directory::create(&path, sample::info(), true).map(|_| ());
        assert!(
            matches!(&refused, Err(Error::InTheWay { path }) if *path == mine),
            "{name:?}: {refused:?}"
        );
        assert!(mine.exists());
        if mine.is_dir() {
            std::fs::remove_dir(&mine).unwrap();
        } else {
            std::fs::remove_file(&mine).unwrap();
        }
        assert_eq!(names(&path), before, "{name:?}");
        let report = directory::open(&path).unwrap().report(None).unwrap();
        assert_eq!(report.records, records, "{name:?}");
    }
}

#[test]
fn a_file_that_is_called_metadata_makes_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine");
    std::fs::create_dir(&path).unwrap();
    for text in [
        "title: my thesis\n",
        "",
        "/* CTF 1.8 */\nenv { tracer_name = \"other\"; };\n",
    ] {
        std::fs::write(path.join("metadata"), text).unwrap();
        let refused = directory::create(&path, sample::info(), true).map(|_| ());
        assert!(matches!(refused, Err(Error::Occupied { .. })), "{refused:?}");
        assert!(!directory::is_free(&path).unwrap());
        let other = dir.path().join("other");
        if !other.exists() {
            write(&other, 300);
        }
        let refused = directory::publish(&other, &path);
        assert!(matches!(refused, Err(Error::Occupied { .. })), "{refused:?}");
        assert_eq!(std::fs::read_to_string(path.join("metadata")).unwrap(), text);
        assert_eq!(names(&path), ["metadata"]);
    }
}

#[test]
fn root_writes_no_trace_where_others_could_exchange_it() {
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (theirs, ours) = (dir.path().join("theirs"), dir.path().join("ours"));
    std::fs::create_dir(&theirs).unwrap();
    if chown(&theirs, Some(1000), Some(1000)).is_err() {
        println!("skipped: only root can make directories of others");
        return;
    }
    let refused = |path: &std::path::Path| {
        let error = directory::create(path, sample::info(), true)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(
            error.kind(),
            Some(std::io::ErrorKind::PermissionDenied),
            "{error}"
        );
        error.to_string()
    };
    assert!(refused(&theirs).contains("another user (1000)"));
    assert!(directory::is_free(&theirs).is_err());
    std::fs::create_dir(&ours).unwrap();
    std::fs::set_permissions(&ours, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(&ours).contains("chmod go-w"));
    std::fs::set_permissions(&ours, std::fs::Permissions::from_mode(0o700)).unwrap();
    let link = theirs.join("link");
    symlink(&ours, &link).unwrap();
    lchown(&link, Some(1000), Some(1000)).unwrap();
    assert!(refused(&link).contains("symbolic link of another user"));
    // Below a directory of theirs a trace is ours: they can take it away, and put nothing into it.
    write(&theirs.join("mine"), 300);
    // The folder beside the streams, exchanged while the trace is written.
    let mut writer = directory::create(&ours, sample::info(), true).unwrap();
    writer
        .append(0, 0, &sealed(&mut sample::streams(3).remove(0).ring))
        .unwrap();
    symlink(&theirs, ours.join(".kestrel")).unwrap();
    let nothing = (&Default::default(), &Default::default(), &Default::default());
    let error = writer.finish(nothing.0, nothing.1, nothing.2).unwrap_err();
    assert!(error.to_string().contains(".kestrel"), "{error}");
    assert_eq!(names(&theirs), ["link", "mine"]);
}

#[test]
fn who_writes_a_trace_has_its_place_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("trace"), dir.path().join("other"));
    let mut writer = directory::create(&path, sample::info(), true).unwrap();
    let busy = |result: Result<(), Error>| matches!(&result, Err(Error::Busy { path: at }) if *at == path);
    assert!(busy(directory::create(&path, sample::info(), true).map(|_| ())));
    assert!(busy(directory::is_free(&path).map(|_| ())));
    write(&other, 300);
    assert!(busy(directory::publish(&other, &path)));
    let bytes = sealed(&mut sample::streams(3).remove(0).ring);
    writer.append(0, 0, &bytes).unwrap();
    drop(writer);
    assert!(directory::is_free(&path).unwrap());
    let mut trace = directory::open(&path).unwrap();
    assert!(trace.reader.next().unwrap().is_some(), "undisturbed");
    directory::publish(&other, &path).unwrap();
    directory::create(&path, sample::info(), true).unwrap();
}

#[test]
fn a_trace_can_be_opened_before_it_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let mut writer = directory::create(&path, sample::info(), false).unwrap();
    assert!(directory::open(&path).unwrap().reader.next().unwrap().is_none());
    let bytes = sealed(&mut sample::streams(3).remove(0).ring);
    writer.append(0, 0, &bytes).unwrap();
    let mut trace = directory::open(&path).unwrap();
    assert!(trace.reader.next().unwrap().is_some() && trace.summary.is_none());
    writer
        .add_events([sample::class(900, "kprobe", "kprobe:later", vec![])])
        .unwrap();
    let trace = directory::open(&path).unwrap();
    assert_eq!(trace.reader.info().events.last().unwrap().name, "kprobe:later");
}

#[test]
fn nonsense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = directory::create(&dir.path().join("t"), sample::info(), false).unwrap();
    assert!(matches!(
        writer.append(0, 0, &[0; 100]),
        Err(Error::Fraction { bytes: 100 })
    ));
    let bytes = sealed(&mut sample::streams(1).remove(0).ring);
    assert!(matches!(
        writer.append(9, 0, &bytes),
        Err(Error::UnknownBuffer(9))
    ));
    let mut info = sample::info();
    info.buffers[0].name = "../x".into();
    assert!(directory::create(&dir.path().join("u"), info, false).is_err());
}
