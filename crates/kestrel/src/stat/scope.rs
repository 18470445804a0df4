//! Scope of counting, said in the ways of both kinds: targets of perf events, conditions of the language.

use super::cgroup::Cgroup;
use super::count::Part;
use crate::session::process_filter::ProcessFilter;
use kestrel_catalog::catalog::counter::counted::{self, Named};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use kestrel_kernel::perf::{Begin, CountedTasks, Inherit, Software};
use kestrel_kernel::procfs::{self, CpuList};

/// Key by which the counts of an event are split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// One count for each event.
    #[default]
    None,
    /// A row for each CPU.
    Cpu,
    /// A row for each thread.
    Thread,
    /// By expressions of the language, with commas between them.
    By(String),
}

/// Scope of counting.
#[derive(Debug)]
pub enum Scope {
    /// All processes.
    All,
    /// Events on these CPUs.
    Cpus(CpuList),
    /// These processes with all threads, those that they start later included.
    Processes(Vec<u32>),
    /// Events of these threads.
    Threads(Vec<u32>),
    /// Tasks of a cgroup, and of the cgroups below it.
    Cgroup(Cgroup),
    /// A process that waits to exec, from its exec on, and its children.
    Command(u32),
}

/// Target of one perf event.
#[derive(Debug)]
pub(super) struct CounterTarget<'a> {
    pub(super) whose: CountedTasks<'a>,
    pub(super) cpu: Option<u32>,
    pub(super) inherit: Inherit,
    pub(super) begin: Begin,
    pub(super) part: Part,
}

impl Scope {
    /// The counter, or of the usual ones another that suits: the clock of no task in particular is that of the CPU, as perf has it.
    pub(super) fn suited(&self, named: Named, usual: bool) -> Named {
        let of_tasks = matches!(self, Self::Processes(_) | Self::Threads(_) | Self::Command(_));
        match usual && !of_tasks && named.meaning == counted::Meaning::Software(Software::TaskClock as u64) {
            true => counted::of_software(Software::CpuClock),
            false => named,
        }
    }

    /// The processes that hooks follow by themselves.
    pub(super) fn filter(&self) -> ProcessFilter {
        match self {
            Self::Command(pid) => ProcessFilter::Command(*pid),
            _ => ProcessFilter::All,
        }
    }

    /// Condition for an event of a tracer.
    pub(super) fn condition(&self) -> Option<String> {
        let any = |word: &str, numbers: &mut dyn Iterator<Item = u32>| {
            let each: Vec<String> = numbers.map(|number| format!("{word} == {number}")).collect();
            Some(each.join(" || "))
        };
        match self {
            Self::All | Self::Command(_) => None,
            Self::Cpus(cpus) => any("cpu", &mut cpus.iter()),
            Self::Processes(pids) => any("pid", &mut pids.iter().copied()),
            Self::Threads(tids) => any("tid", &mut tids.iter().copied()),
            Self::Cgroup(cgroup) => Some(cgroup.condition()),
        }
    }

    /// Where a counter is opened.
    ///
    /// # Errors
    /// When counts cannot be split in that way, or a process has ended.
    pub(super) fn targets(&self, split: &Split, host: &Host) -> Result<Vec<CounterTarget<'_>>> {
        if let Split::By(text) = split {
            return Err(Error::NotHere {
                option: format!("--by {text}"),
                why: "counters have no fields; events of tracers have (-e sched:sched_switch), and --per-thread and --per-cpu divide counters",
            });
        }
        match self {
            Self::All => Self::on_cpus(CountedTasks::All, procfs::online_cpus(host)?.iter(), split, host),
            Self::Cpus(cpus) => Self::on_cpus(CountedTasks::All, cpus.iter(), split, host),
            Self::Cgroup(cgroup) => {
                let whose = CountedTasks::Cgroup(cgroup.directory());
                Self::on_cpus(whose, procfs::online_cpus(host)?.iter(), split, host)
            }
            Self::Processes(pids) => {
                let threads = threads(pids, host)?;
                of_threads(&threads, Inherit::Threads, Begin::WhenEnabled, split, host)
            }
            Self::Threads(tids) => of_threads(tids, Inherit::Nothing, Begin::WhenEnabled, split, host),
            Self::Command(_) if *split == Split::Thread => Err(Error::NotHere {
                option: "--per-thread".to_owned(),
                why: "which threads a command will have is not known when its counters are opened; -p, -t and -a name those that are there, and events of tracers can be counted so",
            }),
            Self::Command(pid) => of_threads(&[*pid], Inherit::Children, Begin::AtExec, split, host),
        }
    }

    /// The threads of which each must get a counter of its own, whose later threads then inherit it: there may be more at any time.
    ///
    /// # Errors
    /// A process that has ended.
    pub(super) fn threads(&self, host: &Host) -> Result<Vec<u32>> {
        match self {
            Self::Processes(pids) => threads(pids, host),
            _ => Ok(Vec::new()),
        }
    }

    fn on_cpus<'a>(
        whose: CountedTasks<'a>,
        cpus: impl Iterator<Item = u32>,
        split: &Split,
        host: &Host,
    ) -> Result<Vec<CounterTarget<'a>>> {
        if *split == Split::Thread && matches!(whose, CountedTasks::All) {
            let mut threads = Vec::new();
            for process in procfs::processes(host)? {
                // One that has ended meanwhile has none.
                threads.extend(procfs::threads(host, process).unwrap_or_default());
            }
            return of_threads(&threads, Inherit::Nothing, Begin::WhenEnabled, split, host);
        }
        let target = |cpu| CounterTarget {
            whose,
            cpu: Some(cpu),
            inherit: Inherit::Nothing,
            begin: Begin::WhenEnabled,
            part: match split {
                Split::Cpu => Part::Cpu(cpu),
                _ => Part::All,
            },
        };
        Ok(cpus.map(target).collect())
    }
}

fn threads(pids: &[u32], host: &Host) -> Result<Vec<u32>> {
    let mut threads = Vec::new();
    for pid in pids {
        threads.extend(procfs::threads(host, *pid)?);
    }
    Ok(threads)
}

fn of_threads<'a>(
    threads: &[u32],
    inherit: Inherit,
    begin: Begin,
    split: &Split,
    host: &Host,
) -> Result<Vec<CounterTarget<'a>>> {
    let cpus: Vec<Option<u32>> = match split {
        Split::Cpu => procfs::online_cpus(host)?.iter().map(Some).collect(),
        _ => vec![None],
    };
    let mut targets = Vec::new();
    for tid in threads {
        for cpu in &cpus {
            let part = match (split, cpu) {
                (Split::Thread, _) => Part::Thread {
                    comm: procfs::comm(host, *tid).unwrap_or_else(|_| "<...>".to_owned()),
                    tid: *tid,
                },
                (_, Some(cpu)) => Part::Cpu(*cpu),
                _ => Part::All,
            };
            targets.push(CounterTarget {
                whose: CountedTasks::Thread(*tid),
                cpu: *cpu,
                inherit,
                begin,
                part,
            });
        }
    }
    Ok(targets)
}
