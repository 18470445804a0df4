//! Runner of the commands that handlers ask for: a limited number at once, each with a time limit, as one user. There is no shell, and no word of a
//! command is made from an event.
//!
//! A command's words are those of the table file. The event reaches it as environment variables (`KESTREL_EVENT`, `KESTREL_TIME_NS`,
//! `KESTREL_CPU`, `KESTREL_PID`, `KESTREL_TID`, `KESTREL_SESSION`, and `KESTREL_FIELD_<name>` for each field) and as one line of JSON on its
//! standard input.

use super::limit::Bucket;
use super::user::User;
use kestrel_kernel::process::{Signal, send_to_group};
use kestrel_kernel::procfs;
use kestrel_trace::export::{Export, Json};
use kestrel_trace::files;
use kestrel_trace::print;
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Limits on commands: their user, number, time and rate.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The user that commands run as; without one no command is run.
    pub user: Option<User>,
    /// Most commands at once.
    pub jobs: usize,
    /// Longest time that a command may run.
    pub timeout: Duration,
    /// Starts per second of one command, in the long run.
    pub rate: f64,
    /// Starts of one command that are allowed in a burst.
    pub burst: u32,
    /// Whether commands' standard output goes to this process's standard error, because its standard output is data that they must not interrupt.
    pub output_aside: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            user: None,
            jobs: 4,
            timeout: Duration::from_secs(30),
            rate: 1.0,
            burst: 5,
            output_aside: false,
        }
    }
}

/// Outcome of a request to start a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOutcome {
    /// The command was started.
    Running,
    /// The command may run, but as many run as may at once: ask again later.
    Busy,
    /// This command was started too often lately: left out.
    Limited,
    /// No command may be run.
    Forbidden,
}

/// A command that ended.
#[derive(Debug)]
pub struct CommandEnded {
    /// The command's words.
    pub command: String,
    /// Exit of the command.
    pub how: End,
}

/// Exit of a command.
#[derive(Debug)]
pub enum End {
    /// The command ended by itself.
    Exited(ExitStatus),
    /// The command was killed, with its process group, when its time was over.
    TimedOut,
    /// The command could not be started.
    Failed(std::io::Error),
}

#[derive(Debug)]
struct Job {
    command: String,
    child: Child,
    /// End of its time; `None` where that is later than the clock can count.
    deadline: Option<Instant>,
}

/// Runner of commands.
#[derive(Debug)]
pub struct Runner {
    policy: Policy,
    jobs: Vec<Job>,
    limits: HashMap<String, Bucket>,
    /// Permitted requests that found the limit of running commands reached.
    waiting: HashSet<QueuedCommand>,
    ended: Vec<CommandEnded>,
}

/// A request: its session, the CPU and the time of its record, its command.
type QueuedCommand = (String, u32, u64, String);

/// Most requests that wait at a time; more are left out.
const MAX_WAITING: usize = 1024;

impl Runner {
    /// A runner with nothing running yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            jobs: Vec::new(),
            limits: HashMap::new(),
            waiting: HashSet::new(),
            ended: Vec::new(),
        }
    }

    /// Starts a command for a record of a session, if that is permitted now.
    pub fn start(&mut self, session: &str, command: &str, record: &Record<'_>) -> StartOutcome {
        let Some(user) = self.policy.user.clone() else {
            return StartOutcome::Forbidden;
        };
        self.reap();
        let request = (session.to_owned(), record.cpu, record.time_ns, command.to_owned());
        // The limit of starts comes first: in a flood of requests most are refused by it, and need not wait for those that are not.
        let waited = self.waiting.remove(&request);
        let bucket = self
            .limits
            .entry(command.to_owned())
            .or_insert_with(|| Bucket::new(self.policy.rate, self.policy.burst));
        if !waited && (self.waiting.len() >= MAX_WAITING || !bucket.take(procfs::monotonic())) {
            return StartOutcome::Limited;
        }
        if self.jobs.len() >= self.policy.jobs.max(1) {
            self.waiting.insert(request);
            return StartOutcome::Busy;
        }
        match spawn(session, command, record, &user, self.policy.output_aside) {
            Ok(child) => self.jobs.push(Job {
                command: command.to_owned(),
                child,
                deadline: Instant::now().checked_add(self.policy.timeout),
            }),
            Err(error) => self.ended.push(CommandEnded {
                command: command.to_owned(),
                how: End::Failed(error),
            }),
        }
        StartOutcome::Running
    }

    /// Commands that ended since the last call; those whose time is over are killed now.
    pub fn ended(&mut self) -> Vec<CommandEnded> {
        self.reap();
        std::mem::take(&mut self.ended)
    }

    /// Forgets the waiting requests of sessions that do not exist any more.
    pub fn forget_but(&mut self, is_there: impl Fn(&str) -> bool) {
        self.waiting.retain(|(session, ..)| is_there(session));
    }

    /// Commands that run.
    pub fn running(&self) -> usize {
        self.jobs.len()
    }

    fn reap(&mut self) {
        let now = Instant::now();
        let mut still = Vec::with_capacity(self.jobs.len());
        for mut job in self.jobs.drain(..) {
            let how = match job.child.try_wait() {
                Ok(Some(status)) => End::Exited(status),
                Ok(None) if job.deadline.is_some_and(|deadline| now >= deadline) => {
                    kill(&mut job.child);
                    End::TimedOut
                }
                Ok(None) => {
                    still.push(job);
                    continue;
                }
                Err(error) => End::Failed(error),
            };
            self.ended.push(CommandEnded {
                command: job.command,
                how,
            });
        }
        self.jobs = still;
    }
}

impl Drop for Runner {
    /// Ends the processes that were started: none outlives its watchdog.
    fn drop(&mut self) {
        for job in &mut self.jobs {
            kill(&mut job.child);
        }
    }
}

/// Kills a command with everything that it started, and collects its exit status.
fn kill(child: &mut Child) {
    let _gone_already = send_to_group(child.id(), Signal::Kill);
    let _status = child.wait();
}

/// Directories that are searched for commands.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The program that a command would run as a user, or why it could not.
///
/// # Errors
/// In words: what is wrong with the command or its program.
pub fn program(command: &str, user: &User) -> Result<PathBuf, String> {
    let words = shell_words::split(command).map_err(|error| error.to_string())?;
    let name = words.first().ok_or("there is no command in it")?;
    let places: Vec<PathBuf> = match name.contains('/') {
        true => vec![Path::new("/").join(name)],
        false => PATH
            .split(':')
            .map(|folder| Path::new(folder).join(name))
            .collect(),
    };
    let Some((path, found)) = places
        .into_iter()
        .find_map(|path| path.metadata().ok().map(|found| (path, found)))
    else {
        return Err(format!("there is no program {name}"));
    };
    let bits = match (found.uid() == user.uid, found.gid() == user.gid) {
        (true, _) => 0o100,
        (_, true) => 0o010,
        _ => 0o001,
    };
    let allowed = if user.uid == 0 { 0o111 } else { bits };
    if found.is_dir() || found.mode() & allowed == 0 {
        return Err(format!("{} may not run {}", user.name, path.display()));
    }
    let objection = files::objection(&path, user.uid);
    let objection = objection.map_err(|error| format!("cannot look at {}: {error}", path.display()))?;
    objection.map_or(Ok(path), |objection| {
        let whom = match user.uid {
            0 => "root".to_owned(),
            _ => format!("root and {}", user.name),
        };
        Err(format!(
            "others than {whom} could exchange the program: {objection}"
        ))
    })
}

/// Why a command would do nothing although it can be run: one of Kestrel's that needs root's rights, run as another user.
pub fn barred(command: &str, program: &Path, user: &User) -> Option<String> {
    let words = shell_words::split(command).ok()?;
    let of_root = match words.get(1).map(String::as_str)? {
        "table" => ["list", "load", "unload", "use"].contains(&words.get(2)?.as_str()),
        verb => OF_ROOT.contains(&verb),
    };
    let own = program.file_name()? == "kestrel";
    (own && of_root && user.uid != 0).then(|| {
        format!(
            "sessions are root's, {} may not change or read them: let the agent run it with --user root",
            user.name
        )
    })
}

/// Commands of Kestrel's that need root's rights.
const OF_ROOT: [&str; 10] = [
    "agent", "bpf", "buffer", "handler", "probe", "record", "start", "status", "stop", "trace",
];

fn spawn(
    session: &str,
    command: &str,
    record: &Record<'_>,
    user: &User,
    aside: bool,
) -> std::io::Result<Child> {
    let invalid = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
    let words = shell_words::split(command).map_err(|error| invalid(error.to_string()))?;
    let (program, args) = words
        .split_first()
        .ok_or_else(|| invalid("there is no command in it".to_owned()))?;
    let mut line = Vec::new();
    Json::new(Symbols::default(), Processes::default()).record(record, &mut line);
    let output = match aside {
        true => Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?),
        false => Stdio::inherit(),
    };
    // By the check no other user can put another program there from now on.
    let path =
        self::program(command, user).map_err(|why| std::io::Error::new(ErrorKind::PermissionDenied, why))?;
    let mut child = Command::new(path);
    child
        .arg0(program)
        .args(args)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", &user.home)
        .env("USER", &user.name)
        .envs(environment(session, record))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(Stdio::inherit())
        .process_group(0)
        .gid(user.gid)
        .uid(user.uid);
    let mut child = child.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A line of at most a page fits into an empty pipe; a command that does not read it has closed its end.
        let _unread = stdin.write_all(&line);
    }
    Ok(child)
}

/// The event as environment variables.
fn environment(session: &str, record: &Record<'_>) -> Vec<(String, String)> {
    let mut all = vec![
        ("KESTREL_SESSION".to_owned(), session.to_owned()),
        ("KESTREL_EVENT".to_owned(), record.event.name.clone()),
        ("KESTREL_TIME_NS".to_owned(), record.time_ns.to_string()),
        ("KESTREL_CPU".to_owned(), record.cpu.to_string()),
        ("KESTREL_PID".to_owned(), record.pid.to_string()),
        ("KESTREL_TID".to_owned(), record.tid.to_string()),
    ];
    let symbols = Symbols::default();
    for (field, value) in record.fields() {
        let mut text = Vec::new();
        print::value(value, &symbols, &mut text);
        // An environment cannot hold NULs.
        text.retain(|byte| *byte != 0);
        let name: String = field
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        all.push((
            format!("KESTREL_FIELD_{name}"),
            String::from_utf8_lossy(&text).into_owned(),
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_need_root_are_reported_before_they_fail() {
        let user = |name: &str, uid| User {
            name: name.to_owned(),
            uid,
            gid: uid,
            home: "/".to_owned(),
        };
        let path = Path::new("/usr/local/bin/kestrel");
        let (ops, root) = (user("ops", 1234), user("root", 0));
        for command in [
            "kestrel buffer dump -o /tmp/d",
            "kestrel table use detail",
            "kestrel status",
        ] {
            let why = barred(command, path, &ops).unwrap();
            assert!(
                why.contains("ops may not") && why.contains("--user root"),
                "{why}"
            );
            assert_eq!(barred(command, path, &root), None);
        }
        for command in [
            "kestrel print /tmp/d",
            "kestrel table check x.kst",
            "kestrel",
            "'",
        ] {
            assert_eq!(barred(command, path, &ops), None, "{command}");
        }
        assert_eq!(barred("logger buffer", Path::new("/usr/bin/logger"), &ops), None);
    }
}
