//! A level of the explorer, which is one step into a recording: a selection of its records, and the answers about them that have come so far.

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

/// A selection of records, with the answers about it.
#[derive(Debug)]
pub(crate) struct Level {
    /// The selection of records that the level shows.
    pub(crate) scope: Scope,
    /// The tab that is shown.
    pub(crate) tab: Tab,
    /// The answer of plain `report`, once it has come.
    pub(crate) report: Option<Box<Report>>,
    /// Index of where the records are in the recording; empty until it has come.
    pub(crate) index: Index,
    /// The call graph, once it has come.
    pub(crate) graph: Option<Graph>,
    /// Weight that the call graph adds up for each stack.
    pub(crate) weight: Weight,
    /// The expressions by which records are grouped.
    pub(crate) keys: Option<Keys>,
    /// The records as lines.
    pub(crate) records: Records,
    /// One record in full, from when it has come until it is taken to be shown.
    pub(crate) detail: Option<Vec<String>>,
    tables: BTreeMap<Tab, Shown>,
    jobs: BTreeMap<LevelQuestion, Job>,
    failures: BTreeMap<LevelQuestion, String>,
}

/// Kinds of questions that a level asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LevelQuestion {
    /// The report, and where records lie.
    Overview,
    /// The contents of a tab.
    Tab(Tab),
    /// Lines of records.
    Lines,
    /// One record in full.
    Detail,
}

impl Level {
    /// A level without any answers.
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

    /// The questions to ask so that the tab can be shown, without those that were asked before.
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

    /// Notes that a question was asked.
    pub(crate) fn asked(&mut self, asked: LevelQuestion, job: Job) {
        self.failures.remove(&asked);
        if let Some(before) = self.jobs.insert(asked, job) {
            before.progress.cancel();
        }
    }

    /// Forgets the table of a tab, which is out of date.
    pub(crate) fn forget(&mut self, tab: Tab) {
        self.tables.remove(&tab);
        let asked = LevelQuestion::Tab(tab);
        self.failures.remove(&asked);
        if let Some(job) = self.jobs.remove(&asked) {
            job.progress.cancel();
        }
    }

    /// Changes how lines of records look.
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
            // The question was cancelled.
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

    /// Makes the table of the call graph anew, after its rows have changed.
    pub(crate) fn regraph(&mut self) {
        let before = self.tables.remove(&Tab::Graph);
        if let Some(graph) = &self.graph {
            self.tables.insert(Tab::Graph, tables::of_graph(graph, before));
        }
    }

    /// The table of the tab that is shown.
    pub(crate) fn table(&self) -> Option<&Shown> {
        self.tables.get(&self.tab)
    }

    /// The table of the tab that is shown, for changing it.
    pub(crate) fn table_mut(&mut self) -> Option<&mut Shown> {
        self.tables.get_mut(&self.tab)
    }

    /// Why the question of the tab that is shown failed, if it did.
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

    /// Progress of the passes over the recording that are waited for, in percent: that of the slowest; `None` if there are none.
    pub(crate) fn percent(&self) -> Option<u64> {
        self.jobs.values().map(|job| job.progress.percent()).min()
    }

    /// Whether answers are awaited.
    pub(crate) fn waits(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Stops the pass that the tab waits for, and goes to the first tab; false if there is none.
    pub(crate) fn stop(&mut self) -> bool {
        let stopped = self.jobs.contains_key(&LevelQuestion::Tab(self.tab));
        if stopped {
            self.forget(self.tab);
            self.tab = Tab::Events;
        }
        stopped
    }

    /// Cancels all questions.
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
