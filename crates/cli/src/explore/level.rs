//! One step into a recording: the records of a scope, and what is known of them so far.

use super::answer::{Answer, Question};
use super::graph::Graph;
use super::index::Index;
use super::jobs::{Job, Outcome};
use super::records::Records;
use super::scope::Scope;
use super::tables::{self, Shown, Tab};
use kestrel_query::Keys;
use kestrel_trace::export::Style;
use kestrel_trace::report::Report;
use kestrel_trace::stacks::Weight;
use std::collections::BTreeMap;

/// The records of a scope.
#[derive(Debug)]
pub(crate) struct Level {
    /// Which records.
    pub(crate) scope: Scope,
    /// What is looked at.
    pub(crate) tab: Tab,
    /// What plain `report` tells, once that is known.
    pub(crate) report: Option<Box<Report>>,
    /// Where the records lie, once that is known.
    pub(crate) index: Index,
    /// The call graph.
    pub(crate) graph: Option<Graph>,
    /// What stacks weigh in it.
    pub(crate) weight: Weight,
    /// The expressions that tell groups apart.
    pub(crate) keys: Option<Keys>,
    /// Records as lines.
    pub(crate) records: Records,
    /// All of a record, once it has come and until it was taken.
    pub(crate) detail: Option<Vec<String>>,
    tables: BTreeMap<Tab, Shown>,
    jobs: BTreeMap<LevelQuestion, Job>,
    failures: BTreeMap<LevelQuestion, String>,
}

/// Questions already asked about a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LevelQuestion {
    /// The report, and where records lie.
    Overview,
    /// What a tab shows.
    Tab(Tab),
    /// Lines of records.
    Lines,
    /// All of a record.
    Detail,
}

impl Level {
    /// A scope of which nothing is known.
    pub(crate) fn new(scope: Scope, tab: Tab, style: Style) -> Self {
        Self {
            scope,
            tab,
            report: None,
            index: Index::default(),
            graph: None,
            weight: Weight::Records,
            keys: None,
            records: Records::new(style),
            detail: None,
            tables: BTreeMap::new(),
            jobs: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Questions whose answers the tab needs to be shown; nothing where it was asked before.
    pub(crate) fn wants(&self, pairs: &[kestrel_query::Pairs]) -> Vec<(LevelQuestion, Question)> {
        let mut wants = vec![(LevelQuestion::Overview, Question::Overview)];
        let question = match self.tab {
            Tab::Graph => Some(Question::Stacks(self.weight)),
            Tab::Latencies => Some(Question::Latencies(pairs.to_vec())),
            Tab::Calls => Some(Question::Calls),
            Tab::Groups => self.keys.clone().map(Question::Groups),
            Tab::Events | Tab::Processes | Tab::Threads | Tab::Cpus | Tab::Records => None,
        };
        wants.extend(question.map(|question| (LevelQuestion::Tab(self.tab), question)));
        wants.retain(|(asked, _)| {
            let known = match asked {
                LevelQuestion::Overview => self.report.is_some(),
                LevelQuestion::Tab(tab) => self.tables.contains_key(tab),
                LevelQuestion::Lines | LevelQuestion::Detail => false,
            };
            !known && !self.jobs.contains_key(asked) && !self.failures.contains_key(asked)
        });
        if self.tab == Tab::Records
            && !self.jobs.contains_key(&LevelQuestion::Lines)
            && !self.failures.contains_key(&LevelQuestion::Lines)
        {
            let lines = self.records.wanted(&self.index);
            wants.extend(lines.map(|lines| (LevelQuestion::Lines, Question::Lines(lines))));
        }
        wants
    }

    /// A question was asked.
    pub(crate) fn asked(&mut self, asked: LevelQuestion, job: Job) {
        self.failures.remove(&asked);
        if let Some(before) = self.jobs.insert(asked, job) {
            before.progress.cancel();
        }
    }

    /// The table of a tab is not true any more.
    pub(crate) fn forget(&mut self, tab: Tab) {
        self.tables.remove(&tab);
        let asked = LevelQuestion::Tab(tab);
        self.failures.remove(&asked);
        if let Some(job) = self.jobs.remove(&asked) {
            job.progress.cancel();
        }
    }

    /// Lines look otherwise.
    pub(crate) fn restyle(&mut self, style: Style) {
        self.records.restyle(style);
        self.jobs.remove(&LevelQuestion::Lines);
    }

    /// Takes the answer with this number, if it was asked here.
    pub(crate) fn take(&mut self, number: u64, outcome: Outcome) -> Option<Outcome> {
        let mut jobs = self.jobs.iter();
        let Some(asked) = jobs.find_map(|(asked, job)| (job.number == number).then_some(*asked)) else {
            return Some(outcome);
        };
        self.jobs.remove(&asked);
        match outcome {
            Ok(Some(answer)) => self.answered(answer),
            // It was cancelled.
            Ok(None) => {}
            Err(failure) => {
                self.failures.insert(asked, failure.message);
            }
        }
        None
    }

    fn answered(&mut self, answer: Answer) {
        let total = self.report.as_ref().map_or(0, |report| report.records);
        match answer {
            Answer::Overview(report, index) => {
                self.tables.extend(tables::of_report(&report));
                self.report = Some(report);
                self.index = index;
            }
            Answer::Stacks(tree) => {
                self.graph = Some(Graph::new(*tree));
                self.regraph();
            }
            Answer::Latencies(rows, unpaired) => {
                self.tables
                    .insert(Tab::Latencies, tables::of_latencies(&rows, &unpaired));
            }
            Answer::Calls(rows, unfinished) => {
                self.tables
                    .insert(Tab::Calls, tables::of_calls(&rows, &unfinished));
            }
            Answer::Groups(grouped) => {
                self.tables
                    .insert(Tab::Groups, tables::of_groups(&grouped, total));
            }
            Answer::Lines(first, lines) => self.records.take(first, lines),
            Answer::Detail(lines) => self.detail = Some(lines),
        }
    }

    /// The rows of the call graph have changed.
    pub(crate) fn regraph(&mut self) {
        let before = self.tables.remove(&Tab::Graph);
        if let Some(graph) = &self.graph {
            self.tables.insert(Tab::Graph, tables::of_graph(graph, before));
        }
    }

    /// The table of the tab.
    pub(crate) fn table(&self) -> Option<&Shown> {
        self.tables.get(&self.tab)
    }

    /// The table, to be changed.
    pub(crate) fn table_mut(&mut self) -> Option<&mut Shown> {
        self.tables.get_mut(&self.tab)
    }

    /// Failure of the tab's question.
    pub(crate) fn failure(&self) -> Option<&str> {
        let of = [
            LevelQuestion::Overview,
            LevelQuestion::Tab(self.tab),
            LevelQuestion::Lines,
            LevelQuestion::Detail,
        ];
        let found = of.iter().find_map(|asked| self.failures.get(asked));
        found.map(String::as_str)
    }

    /// How far the pass is that the tab waits for, in percent: of the slowest, if there are several.
    pub(crate) fn percent(&self) -> Option<u64> {
        self.jobs.values().map(|job| job.progress.percent()).min()
    }

    /// Whether answers are awaited.
    pub(crate) fn waits(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Stops what is read for the tab, and goes to the first one; false if nothing is.
    pub(crate) fn stop(&mut self) -> bool {
        let stopped = self.jobs.contains_key(&LevelQuestion::Tab(self.tab));
        if stopped {
            self.forget(self.tab);
            self.tab = Tab::Events;
        }
        stopped
    }

    /// No answer is wanted any more.
    pub(crate) fn cancel(&mut self) {
        for (_, job) in std::mem::take(&mut self.jobs) {
            job.progress.cancel();
        }
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.cancel();
    }
}
