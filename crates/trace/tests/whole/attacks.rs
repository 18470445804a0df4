//! Another user acts while root's work runs: links and directories are exchanged as fast as that goes, over and over. Nothing of root's may change, and
//! nothing of the other's may be taken for root's. `KESTREL_ATTACKS=1000` for long ones.

use crate::sample;
use kestrel_trace::ctf::directory;
use kestrel_trace::files;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const EVE: u32 = 1000;
/// The other user's action, and its place.
const ACT: &str = "KESTREL_ACT";

fn rounds() -> usize {
    let rounds = std::env::var("KESTREL_ATTACKS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(50)
}

static ALONE: Mutex<()> = Mutex::new(());

/// A place where eve has a directory of her own, and root one.
struct Scene {
    place: tempfile::TempDir,
    /// One attack at a time: each keeps a processor busy.
    _alone: MutexGuard<'static, ()>,
    attacker: Option<Child>,
}

impl Scene {
    fn new() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let scene = Self {
            place,
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
            attacker: None,
        };
        for name in ["eve", "root"] {
            fs::create_dir(scene.at(name)).unwrap();
        }
        if chown(scene.at("eve"), Some(EVE), Some(EVE)).is_err() {
            println!("skipped: only root can be attacked by others");
            return None;
        }
        Some(scene)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Eve begins: this very program, with her rights.
    fn attack(&mut self, act: &str) {
        let own = std::env::current_exe().unwrap();
        // Where it lies is not for everybody to enter.
        let copy = self.at("attacker");
        fs::copy(own, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(copy);
        command
            .args(["--ignored", "--exact", "attacks::eve"])
            .env(ACT, act)
            .current_dir(self.at("eve"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .gid(EVE)
            .uid(EVE);
        self.attacker = Some(loop {
            match command.spawn() {
                // A child of another test still has the copy open.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::yield_now()
                }
                spawned => break spawned.unwrap(),
            }
        });
        while !self.at("eve/ready").exists() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(mut attacker) = self.attacker.take() {
            let _ = attacker.kill();
            let _ = attacker.wait();
        }
    }
}

/// The attacker's loop, until the process is killed.
#[test]
#[ignore = "the other user's part of the tests here"]
fn eve() {
    let Ok(act) = std::env::var(ACT) else { return };
    fs::write("ready", "").unwrap();
    let relink = |target: &str, name: &str| {
        let _ = symlink(target, "next").and_then(|()| fs::rename("next", name));
    };
    let mut away = 0;
    loop {
        match act.as_str() {
            "file" => {
                relink("../root/good", "file");
                relink("evil", "file");
                let _ = fs::remove_file("file");
                let _ = fs::hard_link("evil", "file");
            }
            "directory" => {
                relink("../root", "way");
                let _ = fs::remove_file("way");
                let _ = fs::create_dir("way");
                let _ = fs::rename("way", "away");
                let _ = fs::remove_dir_all("away");
            }
            "inside" => {
                // A directory that waits for root, and links in it as soon as root has begun.
                let _ = fs::create_dir("trace");
                let _ = fs::set_permissions("trace", fs::Permissions::from_mode(0o777));
                for _ in 0..1000 {
                    if fs::exists("trace/metadata").unwrap_or(false) {
                        let _ = symlink("../../root/mine", "trace/.kestrel");
                        let _ = symlink("../../root/mine/letter", "trace/main_0");
                        std::thread::sleep(std::time::Duration::from_millis(1));
                        break;
                    }
                }
                // One that root made itself can at least be taken out of the way.
                away += 1;
                let _ = fs::remove_dir_all("trace").or_else(|_| fs::rename("trace", format!("away{away}")));
            }
            _ => {
                for name in ["trace", ".trace.new", ".trace.old"] {
                    let _ = fs::rename(name, "taken");
                    relink("../root/mine", name);
                    let _ = fs::remove_file(name);
                    let _ = fs::create_dir(name);
                    let _ = symlink("../../root/mine", format!("{name}/.kestrel"));
                    let _ = symlink("../../root/mine/letter", format!("{name}/metadata"));
                    let _ = symlink("../../root/mine/letter", format!("{name}/.metadata.new"));
                    let _ = fs::remove_dir_all(name);
                    let _ = fs::rename("taken", name);
                }
            }
        }
    }
}

#[test]
fn a_file_is_never_taken_for_roots_while_it_is_exchanged() {
    let Some(mut scene) = Scene::new() else { return };
    fs::write(scene.at("root/good"), "good").unwrap();
    fs::write(scene.at("eve/evil"), "evil").unwrap();
    chown(scene.at("eve/evil"), Some(EVE), Some(EVE)).unwrap();
    scene.attack("file");
    let mut read = 0;
    while read < rounds() * 10 {
        let Ok(mut opened) = files::open(&scene.at("eve/file")) else {
            continue;
        };
        let mut text = String::new();
        std::io::Read::read_to_string(&mut opened.file, &mut text).unwrap();
        assert!(text == "good" || text == "evil", "{text}");
        assert!(opened.objection.is_some(), "{text} by {:?}", opened.path);
        let program = files::objection(&scene.at("eve/file"), 0);
        assert!(program.is_err() || program.is_ok_and(|found| found.is_some()));
        read += 1;
    }
}

#[test]
fn nothing_is_written_through_a_link_that_is_exchanged() {
    let Some(mut scene) = Scene::new() else { return };
    fs::write(scene.at("root/letter"), "precious").unwrap();
    scene.attack("directory");
    for _ in 0..rounds() * 10 {
        let _ = files::create(&scene.at("eve/way/letter"), 0o600);
        let _ = directory::create_folder(&scene.at("eve/way/made"));
        let _ = directory::discard(&scene.at("eve/way"));
    }
    assert_eq!(names(&scene.at("root")), ["letter"]);
    assert_eq!(fs::read_to_string(scene.at("root/letter")).unwrap(), "precious");
}

#[test]
fn a_trace_goes_nowhere_else_while_its_directory_is_exchanged() {
    let Some(mut scene) = Scene::new() else { return };
    let mine = scene.at("root/mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("letter"), "precious").unwrap();
    scene.attack("trace");
    let (trace, beside) = (scene.at("eve/trace"), scene.at("eve/.trace.new"));
    let mut written = 0;
    for round in 0..rounds() {
        written += usize::from(record(if round % 2 == 0 { &trace } else { &beside }).is_ok());
        let _ = directory::mend(&beside);
        let _ = directory::sync(&trace);
        let nothing = Default::default();
        let _ = directory::complete(
            &trace,
            &nothing,
            &Default::default(),
            &Default::default(),
            &Default::default(),
            &Default::default(),
        );
        let _ = directory::publish(&beside, &trace);
        let _ = directory::discard(&beside);
    }
    println!("{written} of {} were written while eve acted", rounds());
    assert_eq!(names(&scene.at("root")), ["mine"]);
    assert_eq!(names(&mine), ["letter"]);
    assert_eq!(fs::read_to_string(mine.join("letter")).unwrap(), "precious");
}

#[test]
fn a_directory_that_waits_for_root_gets_nothing_through_its_links() {
    let Some(mut scene) = Scene::new() else { return };
    let mine = scene.at("root/mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("letter"), "precious").unwrap();
    scene.attack("inside");
    for _ in 0..rounds() * 10 {
        let _ = record(&scene.at("eve/trace"));
    }
    assert_eq!(names(&mine), ["letter"]);
    assert_eq!(fs::read_to_string(mine.join("letter")).unwrap(), "precious");
}

fn record(path: &Path) -> kestrel_trace::Result<()> {
    let mut writer = directory::create(path, sample::info(), true)?;
    writer.folder().reserve(4096);
    let bytes = crate::writing::sealed(&mut sample::streams(30).remove(0).ring);
    writer.append(0, 0, &bytes)?;
    writer.add_events([sample::class(900, "kprobe", "kprobe:later", vec![])])?;
    writer.finish(&Default::default(), &Default::default(), &Default::default())?;
    Ok(())
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    entries.map(name).collect()
}
