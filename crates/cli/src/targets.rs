//! The options that say whose events are traced, and the processes, threads and CPUs that they name.

use crate::arguments;
use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::kernel::Host;
use kestrel::kernel::procfs::{CpuList, comm, online_cpus, processes};
use kestrel::session::process_filter::ProcessFilter;

/// Target options: whose events are traced.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Targets {
    /// Trace only these processes, with all their threads, until they exit: by number, or all that run now by name; and what others do to them:
    /// their wakeups, switches to them, signals; with COMMAND: while it runs, as `-p PID sleep 10`
    #[arg(
        short = 'p',
        long = "pid",
        id = "pid",
        value_name = "PID|NAME,…",
        value_delimiter = ','
    )]
    named: Vec<String>,
    /// Trace only these threads, until they exit, and what others do to them
    #[arg(short = 't', long = "tid", id = "tid", value_name = "TID,…", value_delimiter = ',', value_parser = arguments::pid, conflicts_with = "pid")]
    threads: Vec<u32>,
    /// Trace only what happens on these CPUs: 0,2-3
    #[arg(short = 'C', long = "cpu", id = "cpu", value_name = "CPUS", value_parser = cpus)]
    cpus: Option<CpuList>,
    /// With -p, -t or COMMAND: only what these do themselves, not what others do to them
    #[arg(long)]
    pub(crate) only_own: bool,
}

impl Targets {
    /// The processes or threads that are named; none where none is.
    pub(crate) fn find(&self, host: &Host) -> Result<Option<ProcessFilter>, Failure> {
        for thread in &self.threads {
            check_thread(*thread, host)?;
        }
        if !self.threads.is_empty() {
            return Ok(Some(ProcessFilter::Threads(self.threads.clone())));
        }
        let mut pids = Vec::new();
        for text in &self.named {
            match text.parse() {
                Ok(pid) => {
                    check_process(pid, host)?;
                    pids.push(pid);
                }
                Err(_) => pids.extend(with_name(text, host)?),
            }
        }
        pids.sort_unstable();
        pids.dedup();
        Ok((!pids.is_empty()).then_some(ProcessFilter::Processes(pids)))
    }

    /// The CPUs that are named.
    pub(crate) fn cpus(&self, host: &Host) -> Result<CpuList, Failure> {
        let Some(cpus) = &self.cpus else {
            return Ok(CpuList::default());
        };
        let online = online_cpus(host)?;
        match cpus.iter().find(|cpu| !online.contains(*cpu)) {
            None => Ok(cpus.clone()),
            Some(cpu) => {
                let message = format!("cannot trace on CPU {cpu}: it does not run");
                let failure = Failure::new(Exit::Failed, message);
                Err(failure.hint("/sys/devices/system/cpu/online lists those that do"))
            }
        }
    }
}

/// Bytes of a name of a process that the kernel keeps.
const NAME_BYTES: usize = 15;

/// The processes with this name, this one left out.
fn with_name(name: &str, host: &Host) -> Result<Vec<u32>, Failure> {
    let kept = name.get(..NAME_BYTES).unwrap_or(name);
    let own = std::process::id();
    let mut found = processes(host)?;
    found.retain(|pid| *pid != own && comm(host, *pid).is_ok_and(|comm| comm == kept));
    match found.is_empty() {
        false => Ok(found),
        true => {
            let message = format!("cannot trace the process {name}: none with this name runs");
            let failure = Failure::new(Exit::Failed, message);
            Err(failure.hint("`pgrep -l PART` shows names; `kestrel record … -- COMMAND` starts one"))
        }
    }
}

/// Error where `--only-own` has no targets whose events it could tell from others'.
pub(crate) fn nobodys_own(options: &str) -> Failure {
    let message = "--only-own has nothing to leave out: everybody's events are asked for";
    Failure::new(Exit::Usage, message).hint(format!(
        "{options} says whose; --only-own then leaves out what others do to them (wakeups, switches, signals)"
    ))
}

/// Checks that a number is the PID of a process, not of a thread.
pub(crate) fn check_process(pid: u32, host: &Host) -> Result<(), Failure> {
    let fails = |why: &str| Failure::new(Exit::Failed, format!("cannot trace process {pid}: {why}"));
    // A process may be called anything, also what is no text.
    let Ok(status) = host.read(format!("/proc/{pid}/status")) else {
        let failure = fails("there is no such process");
        return Err(failure.hint("`pgrep NAME` gives the numbers of running processes"));
    };
    let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    match leader.map(str::trim) {
        Some(leader) if leader != pid.to_string() => {
            let failure = fails(&format!("that is a thread of process {leader}"));
            let hint = format!("-p {leader} traces all its threads; -t {pid} this one");
            Err(failure.hint(hint))
        }
        _ => Ok(()),
    }
}

/// Checks that there is a thread of this number.
fn check_thread(tid: u32, host: &Host) -> Result<(), Failure> {
    if host.path(format!("/proc/{tid}")).exists() {
        return Ok(());
    }
    let message = format!("cannot trace thread {tid}: there is no such thread");
    Err(Failure::new(Exit::Failed, message).hint("`ls /proc/PID/task` shows the threads of a process"))
}

fn cpus(text: &str) -> Result<CpuList, String> {
    let list = CpuList::parse(text).map_err(|error| error.to_string())?;
    match list.is_empty() {
        true => Err("it should read 0 or 0,2-3".to_owned()),
        false => Ok(list),
    }
}
