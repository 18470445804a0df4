//! Work of a run that is still to do: each file on each of its kernels, with its tests, and who works at them.

use super::Selection;
use super::files::{EXAMPLES, TRACEPOINTS, kernels};
use super::job::{GuestKind, Job};
use crate::artifact::{self, Base, Executable};
use crate::guest::{GuestSpec, GuestTemplate};
use crate::pace::Memory;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Weight of a file without a worker, in seconds: it comes before files where a worker could be helped, whatever is left there.
const ALONE: f64 = 1e6;

/// The remaining tests of a job, and its workers. A worker that has nothing left to do helps where most is left, so that no guest idles at the end
/// for longer than one test takes.
pub(super) struct Rest {
    pub(super) job: Arc<Job>,
    /// With what each is expected to take, in seconds.
    pub(super) tests: VecDeque<(String, f64)>,
    workers: usize,
}

/// All that is still to do.
pub(super) struct Queue(Mutex<Vec<Rest>>);

impl Queue {
    /// Every file on every kernel it is meant for.
    pub(super) fn of(selection: &Selection<'_>, files: Vec<Executable>, memory: &Memory) -> Result<Self> {
        let mut all = Vec::new();
        for file in files {
            let on = kernels(&file.name, selection.series);
            let wanted = |test: &String| format!("{}::{test}", file.name).contains(selection.name);
            let tests: Vec<String> = list(&file)?.into_iter().filter(wanted).collect();
            if tests.is_empty() {
                continue;
            }
            let mut examples = match EXAMPLES.iter().find(|(name, _)| *name == file.name) {
                Some((_, names)) => artifact::examples(names)?,
                None => Vec::new(),
            };
            if let Some((_, names)) = TRACEPOINTS.iter().find(|(name, _)| *name == file.name) {
                examples.extend(artifact::usdt_programs(names)?);
            }
            for series in on {
                let expected = |test: &String| memory.expected(series, &format!("{}::{test}", file.name));
                let job = Arc::new(Job {
                    series: series.to_owned(),
                    file: file.clone(),
                    examples: examples.clone(),
                });
                let tests = tests.iter().map(|test| (test.clone(), expected(test))).collect();
                all.push(Rest {
                    job,
                    tests,
                    workers: 0,
                });
            }
        }
        ensure!(
            !all.is_empty(),
            "no guest test is called {:?} and meant for the kernels asked for",
            selection.name
        );
        Ok(Self(Mutex::new(all)))
    }

    /// The templates of each kind of guest.
    pub(super) fn stables(&self, base: &Base) -> Result<BTreeMap<GuestKind, GuestTemplate>> {
        let kinds: BTreeSet<GuestKind> = self.rests().iter().map(|rest| rest.job.kind()).collect();
        let prepare = |(series, packages): &GuestKind| {
            let spec = GuestSpec {
                packages: packages.iter().map(|name| (*name).to_owned()).collect(),
                ..GuestSpec::plain(series)
            };
            GuestTemplate::prepare(&spec, &base.init)
        };
        kinds
            .into_iter()
            .map(|kind| Ok((kind.clone(), prepare(&kind)?)))
            .collect()
    }

    pub(super) fn rests(&self) -> MutexGuard<'_, Vec<Rest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job with most left for each worker; a worker with a clone of a kernel keeps that kernel while it has files without a worker.
    pub(super) fn enter(&self, series: Option<&str>) -> Option<(usize, Arc<Job>)> {
        let mut rests = self.rests();
        let left: Vec<(usize, f64)> = rests.iter().map(Rest::share).enumerate().collect();
        let most = |of: &dyn Fn(usize, f64) -> bool| {
            let among = left.iter().copied().filter(|(index, share)| of(*index, *share));
            among.max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let same = |index: usize| Some(&*rests[index].job.series) == series;
        let here = most(&|index, share| share >= ALONE && same(index));
        let (index, _) = here.or_else(|| most(&|_, share| share > 0.0))?;
        rests[index].workers += 1;
        Some((index, Arc::clone(&rests[index].job)))
    }

    pub(super) fn next(&self, index: usize) -> Option<String> {
        Some(self.rests()[index].tests.pop_front()?.0)
    }

    pub(super) fn leave(&self, index: usize) {
        self.rests()[index].workers -= 1;
    }
}

impl Rest {
    /// The share of one more worker. A guest's start is not worth while where none is needed.
    fn share(&self) -> f64 {
        let left: f64 = self.tests.iter().map(|(_, seconds)| seconds).sum();
        // Workers take files without a worker before they help.
        if self.workers == 0 && left > 0.0 {
            left + ALONE
        } else {
            left / (self.workers + 1) as f64
        }
    }
}

/// The tests in a file. It is a static program: it can be asked here.
fn list(file: &Executable) -> Result<Vec<String>> {
    let output = Command::new(&file.path)
        .args(["--list", "--format", "terse"])
        .output();
    let output = output.with_context(|| format!("run {}", file.path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect())
}
