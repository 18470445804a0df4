//! The view: steps into a recording, what is typed, and what keys do.

use super::answer::{Question, next_style, usual_pairs, wrong};
use super::jobs::Jobs;
use super::level::{Level, LevelQuestion};
use super::scope::{Condition, Scope, has_calls, has_stacks, range_label};
use super::tables::{Subject, TABS, Tab};
use super::timeline::{self, Selecting, SelectionChange};
use crate::exit::Failure;
use crate::filter;
use crate::terminal::{AfterKey, Edited, HelpWindow, KeyCode, KeyEvent, KeyModifiers, Prompt};
use kestrel_query::{Keys, Pairs};
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::export::Style;
use kestrel_trace::info::ClockOffset;
use kestrel_trace::print::shown;
use kestrel_trace::stacks::Weight;
use std::time::Duration;

/// A recording that is looked into.
#[derive(Debug)]
pub(crate) struct Explorer {
    pub(super) jobs: Jobs,
    /// The recording as it was opened: its description; its records are read elsewhere.
    trace: Trace,
    /// The steps that were taken; the last is shown.
    levels: Vec<Level>,
    pub(super) mode: Mode,
    /// The pairs of events whose latencies are looked at.
    pairs: Vec<Pairs>,
    style: Style,
    /// From the recording's clock to the time of day.
    clock: ClockOffset,
    /// Columns of the histogram when it was drawn.
    pub(super) columns: usize,
    /// A word about the last key.
    pub(super) notice: Option<String>,
}

/// Mode of the keyboard.
#[derive(Debug)]
pub(crate) enum Mode {
    /// The current view.
    Looking,
    /// A line that is typed.
    Typing(Typing),
    /// A range of times.
    Selecting(Selecting),
    /// The list of keys.
    Help(HelpWindow),
    /// A text above all else: its title, its lines, and the first one shown.
    Reading(String, Vec<String>, usize),
}

/// A line that is typed.
#[derive(Debug)]
pub(crate) struct Typing {
    /// Purpose of the prompt.
    pub(super) what: PromptPurpose,
    /// The line that is being typed.
    pub(super) prompt: Prompt,
    /// The error, as far as it was tried.
    pub(super) wrong: Vec<String>,
}

/// Purpose of the input line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptPurpose {
    /// A predicate.
    Predicate,
    /// A text that lines of records have.
    Text,
    /// Expressions that tell groups apart.
    Groups,
    /// A pair of events.
    Pair,
    /// The number of a record.
    Number,
}

impl PromptPurpose {
    /// Label before the line.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Predicate => "only records of which this holds: ",
            Self::Text => "only records with this text: ",
            Self::Groups => "groups by expressions: ",
            Self::Pair => "latencies of BEGIN,END[,KEY]: ",
            Self::Number => "record number: ",
        }
    }
}

/// Columns that a command line may take where the recording is described.
const WIDE: usize = 400;

/// Between two looks at what has come while passes run.
const SOON: Duration = Duration::from_millis(50);

impl Explorer {
    /// A recording of which nothing was read yet, and the scope to begin with.
    pub(crate) fn new(jobs: Jobs, trace: Trace, scope: Scope, clock: ClockOffset) -> Self {
        let pairs = usual_pairs(&trace.reader.info().events);
        let style = Style::default();
        Self {
            jobs,
            levels: vec![Level::new(scope, Tab::Events, style)],
            mode: Mode::Looking,
            pairs,
            style,
            clock,
            columns: 0,
            notice: None,
            trace,
        }
    }

    /// The level that is shown.
    pub(crate) fn level(&self) -> &Level {
        // There is always the first.
        &self.levels[self.levels.len() - 1]
    }

    /// The level on top, to be changed.
    pub(crate) fn level_mut(&mut self) -> &mut Level {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// Depth of the level in the recording.
    #[cfg(test)]
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The tabs that this recording has something for.
    pub(crate) fn tabs(&self) -> Vec<(Tab, &'static str)> {
        let events = &self.trace.reader.info().events;
        let (stacks, calls) = (has_stacks(events), has_calls(events));
        let has = |tab: &Tab| match tab {
            Tab::Graph => stacks,
            Tab::Latencies => !self.pairs.is_empty(),
            Tab::Calls => calls,
            Tab::Groups => self.level().keys.is_some(),
            _ => true,
        };
        TABS.into_iter().filter(|(tab, _)| has(tab)).collect()
    }

    /// Takes the answers that have come, and asks what is needed; the time after which to look again.
    pub(crate) fn go_on(&mut self) -> Option<Duration> {
        loop {
            for (number, outcome) in self.jobs.answers() {
                let mut outcome = Some(outcome);
                for level in &mut self.levels {
                    outcome = outcome.and_then(|outcome| level.take(number, outcome));
                }
            }
            if let Some(lines) = self.level_mut().detail.take() {
                self.mode = Mode::Reading("record".to_owned(), lines, 0);
            }
            let wants = self.level().wants(&self.pairs);
            if wants.is_empty() {
                break;
            }
            for (asked, question) in wants {
                self.ask(asked, question);
            }
        }
        self.levels.iter().any(Level::waits).then_some(SOON)
    }

    fn ask(&mut self, asked: LevelQuestion, question: Question) {
        let scope = self.level().scope.clone();
        let job = self.jobs.ask(scope, question);
        self.level_mut().asked(asked, job);
    }

    /// Takes a step into the recording.
    fn enter(&mut self, condition: Condition, tab: Tab) {
        let scope = self.level().scope.and(condition);
        let mut level = Level::new(scope, tab, self.style);
        level.weight = self.level().weight;
        level.keys = self.level().keys.clone();
        self.levels.push(level);
    }

    /// Goes back by one step; at the first there is nowhere to go.
    fn back(&mut self) {
        let level = self.level_mut();
        if let Some(shown) = level.table_mut()
            && !shown.table.filter().is_empty()
        {
            return shown.table.set_filter("");
        }
        if level.tab == Tab::Graph && level.graph.as_mut().is_some_and(|graph| graph.zoom_out()) {
            return level.regraph();
        }
        if self.levels.len() > 1 {
            self.levels.pop();
        } else if !self.level_mut().stop() {
            self.notice = Some("this is the whole recording; q quits".to_owned());
        }
    }

    /// Answers a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> AfterKey {
        self.notice = None;
        match &mut self.mode {
            Mode::Looking => return self.look(key),
            Mode::Typing(_) => self.typed(key),
            Mode::Selecting(selecting) => match selecting.key(key) {
                SelectionChange::More => {}
                SelectionChange::Dropped => self.mode = Mode::Looking,
                SelectionChange::Columns(columns) => {
                    self.mode = Mode::Looking;
                    self.select(&columns);
                }
            },
            Mode::Help(help) => {
                if !help.key(key) {
                    self.mode = Mode::Looking;
                }
            }
            Mode::Reading(_, lines, at) => {
                let last = lines.len().saturating_sub(1);
                match key.code {
                    KeyCode::Up | KeyCode::Char('k') => *at = at.saturating_sub(1),
                    KeyCode::Down | KeyCode::Char('j') => *at = (*at + 1).min(last),
                    KeyCode::PageUp => *at = at.saturating_sub(10),
                    KeyCode::PageDown | KeyCode::Char(' ') => *at = (*at + 10).min(last),
                    KeyCode::Home => *at = 0,
                    _ => self.mode = Mode::Looking,
                }
            }
        }
        AfterKey::Tick
    }

    /// A key while looking.
    fn look(&mut self, key: KeyEvent) -> AfterKey {
        // While a filter is typed all keys are its letters, `q` too.
        if self
            .level()
            .table()
            .is_some_and(|shown| shown.table.prompt().is_some())
        {
            if let Some(shown) = self.level_mut().table_mut() {
                shown.table.key(key);
            }
            return AfterKey::Stay;
        }
        // A letter with Ctrl or Alt is another key; `fill` has taken those that mean something.
        if key
            .modifiers
            .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
        {
            return AfterKey::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return AfterKey::Quit,
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help(HelpWindow::default()),
            KeyCode::Esc | KeyCode::Backspace => self.back(),
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(self.tabs().len() - 1),
            KeyCode::Char(digit @ '1'..='9') => {
                let place = digit as usize - '1' as usize;
                if let Some((tab, _)) = self.tabs().get(place) {
                    self.level_mut().tab = *tab;
                }
            }
            KeyCode::Char('f') => self.ask_for(PromptPurpose::Predicate),
            KeyCode::Char('b') => self.ask_for(PromptPurpose::Groups),
            KeyCode::Char('p') => self.ask_for(PromptPurpose::Pair),
            KeyCode::Char('t') => match &self.level().report {
                Some(report) if report.records > 0 => {
                    let columns = timeline::columns(&report.timeline, self.columns.max(1));
                    self.mode = Mode::Selecting(Selecting::new(columns));
                }
                _ => self.notice = Some("there is no time to select yet".to_owned()),
            },
            KeyCode::Char('i') => self.inform(),
            _ if self.level().tab == Tab::Records => self.in_records(key),
            // The graph comes before the keys of all tables: Enter and `h` fold and unfold its rows.
            _ if self.level().tab == Tab::Graph && self.in_graph(key) => {}
            KeyCode::Enter => self.step_in(None),
            KeyCode::Char('r') => self.step_in(Some(Tab::Records)),
            KeyCode::Char('h') if self.level().tab == Tab::Latencies => self.read_histogram(),
            _ => self.in_table(key),
        }
        AfterKey::Tick
    }

    fn in_table(&mut self, key: KeyEvent) {
        if let Some(shown) = self.level_mut().table_mut() {
            shown.table.key(key);
        }
    }

    /// Goes to the tab so many further right.
    fn turn(&mut self, steps: usize) {
        let tabs = self.tabs();
        let at = tabs.iter().position(|(tab, _)| *tab == self.level().tab);
        if let Some((tab, _)) = tabs.get((at.unwrap_or(0) + steps) % tabs.len().max(1)) {
            self.level_mut().tab = *tab;
        }
    }

    fn ask_for(&mut self, what: PromptPurpose) {
        self.mode = Mode::Typing(Typing {
            what,
            prompt: Prompt::default(),
            wrong: Vec::new(),
        });
    }

    /// Steps into the chosen row; to a tab where one is given.
    fn step_in(&mut self, tab: Option<Tab>) {
        let level = self.level();
        let Some(target) = level.table().and_then(|shown| shown.chosen()) else {
            return;
        };
        let tab = tab.unwrap_or_else(|| target.leads_to());
        let condition = target.condition(level.keys.as_ref(), level.graph.as_ref());
        if let Some(condition) = condition {
            self.enter(condition, tab);
        }
    }

    /// Shows the histogram of the chosen latency.
    fn read_histogram(&mut self) {
        let Some(found) = self.level().table() else { return };
        let chosen = found.table.chosen().and_then(|row| row.cells.first());
        if let (Some(name), Some(text)) = (chosen, found.histogram()) {
            let title = format!("{}, ns", name.shown());
            self.mode = Mode::Reading(title, text.lines().map(str::to_owned).collect(), 0);
        }
    }

    /// A key of the call graph; false if it means something else.
    fn in_graph(&mut self, key: KeyEvent) -> bool {
        let level = self.level_mut();
        let row = match level.table().and_then(|shown| shown.chosen()) {
            Some(Subject::Graph(row)) => Some(row.clone()),
            _ => None,
        };
        let Some(graph) = &mut level.graph else {
            return false;
        };
        match (key.code, row) {
            (KeyCode::Enter | KeyCode::Char(' '), Some(row)) => graph.toggle(&row),
            (KeyCode::Right | KeyCode::Char('+' | 'l'), Some(row)) => graph.expand(&row),
            (KeyCode::Left | KeyCode::Char('-' | 'h'), Some(row)) => graph.collapse(&row),
            (KeyCode::Char('e'), Some(row)) => graph.expand_all(&row),
            (KeyCode::Char('z'), Some(row)) => {
                graph.zoom(&row);
                if let Some(shown) = level.table_mut() {
                    shown.table.choose(0);
                }
            }
            (KeyCode::Char('c'), _) => graph.turn(),
            (KeyCode::Char('>'), _) => graph.sort_beside(1),
            (KeyCode::Char('<'), _) => graph.sort_beside(super::graph::COLUMNS.len() - 1),
            (KeyCode::Char('R'), _) => graph.reverse(),
            (KeyCode::Char('o'), _) => {
                self.weigh_otherwise();
                return true;
            }
            _ => return false,
        }
        level.regraph();
        true
    }

    /// Stacks weigh the time off the CPU, or records again.
    fn weigh_otherwise(&mut self) {
        let events = &self.trace.reader.info().events;
        let mut switches = events.iter().filter(|event| event.name == "sched:sched_switch");
        if !switches.any(|event| event.layout.fields().iter().any(|field| field.ty.is_stack())) {
            let word =
                "stacks of sched:sched_switch were not recorded: `kestrel record -g -e sched:sched_switch`";
            self.notice = Some(word.to_owned());
            return;
        }
        let level = self.level_mut();
        level.weight = match level.weight {
            Weight::Records => Weight::OffCpu,
            Weight::OffCpu => Weight::Records,
        };
        level.graph = None;
        level.forget(Tab::Graph);
    }

    /// A key where records are shown.
    fn in_records(&mut self, key: KeyEvent) {
        let level = self.level_mut();
        let total = level.index.records();
        match key.code {
            KeyCode::Enter | KeyCode::Char('r') => {
                if let Some(lines) = level.records.detail(&level.index) {
                    self.ask(LevelQuestion::Detail, Question::Detail(lines));
                }
            }
            KeyCode::Char('/') => self.ask_for(PromptPurpose::Text),
            KeyCode::Char('#') => self.ask_for(PromptPurpose::Number),
            KeyCode::Char('T') => {
                self.style = next_style(self.style, self.jobs.source.begin_ns, self.clock);
                let style = self.style;
                self.level_mut().restyle(style);
            }
            _ => _ = level.records.key(key, total),
        }
    }

    /// A key of the line that is typed.
    fn typed(&mut self, key: KeyEvent) {
        let Mode::Typing(typing) = &mut self.mode else {
            return;
        };
        match typing.prompt.key(key) {
            Edited::More => typing.wrong.clear(),
            Edited::Dropped => self.mode = Mode::Looking,
            Edited::Done => {
                let (what, text) = (typing.what, typing.prompt.text().trim().to_owned());
                let done = match text.is_empty() {
                    true => Ok(()),
                    false => self.typed_whole(what, &text),
                };
                match (done, &mut self.mode) {
                    (Err(wrong), Mode::Typing(typing)) => typing.wrong = wrong,
                    _ => self.mode = Mode::Looking,
                }
            }
        }
    }

    /// Does what a line asks for; what is wrong with it, in lines.
    fn typed_whole(&mut self, what: PromptPurpose, text: &str) -> Result<(), Vec<String>> {
        let events = &self.trace.reader.info().events;
        match what {
            PromptPurpose::Predicate => {
                let condition = Condition::predicate(text, &self.trace).map_err(|error| wrong(&error))?;
                let tab = self.level().tab;
                self.enter(condition, tab);
            }
            PromptPurpose::Text => self.enter(Condition::text(text), Tab::Records),
            PromptPurpose::Groups => {
                let keys = Keys::new(text, events, self.jobs.source.symbols.clone());
                let keys = keys.map_err(|error| wrong(&error))?;
                let level = self.level_mut();
                level.keys = Some(keys);
                level.forget(Tab::Groups);
                level.tab = Tab::Groups;
            }
            PromptPurpose::Pair => {
                let pairs = filter::pairs(text, events).map_err(|error| wrong(&error))?;
                // Its keys are looked at where they are bound.
                let bound =
                    kestrel_query::Latencies::new(vec![pairs.clone()], None, events, &Default::default());
                bound.map_err(|error| wrong(&error))?;
                self.pairs = vec![pairs];
                self.levels
                    .iter_mut()
                    .for_each(|level| level.forget(Tab::Latencies));
                self.level_mut().tab = Tab::Latencies;
            }
            PromptPurpose::Number => {
                let number: Result<u64, _> = text.replace(',', "").parse();
                let number = number.map_err(|_| vec![format!("`{}` is no number", shown(text))])?;
                let level = self.level_mut();
                level.records.go(number.saturating_sub(1), level.index.records());
            }
        }
        Ok(())
    }

    /// Looks at the times of columns of the histogram alone.
    fn select(&mut self, columns: &std::ops::RangeInclusive<usize>) {
        let Some(report) = &self.level().report else {
            return;
        };
        let all = timeline::columns(&report.timeline, self.columns.max(1));
        let times = timeline::times(&report.timeline, all, columns);
        let label = range_label(&times, self.jobs.source.begin_ns);
        let tab = self.level().tab;
        self.enter(Condition::times(label, times), tab);
    }

    /// Shows what is known of the recording besides its records.
    fn inform(&mut self) {
        let Some(report) = &self.level().report else {
            return;
        };
        let path = shown(&self.jobs.source.path.to_string_lossy()).into_owned();
        let text = kestrel_trace::report::about(report, WIDE);
        let lines = std::iter::once(path)
            .chain(text.lines().map(str::to_owned))
            .collect();
        self.mode = Mode::Reading("recording".to_owned(), lines, 0);
    }

    /// Drops what is not needed once the view has ended.
    pub(crate) fn cancel(&mut self) {
        self.levels.iter_mut().for_each(Level::cancel);
    }
}

impl crate::terminal::View for Explorer {
    fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        super::draw::draw(self, frame);
    }

    fn key(&mut self, key: KeyEvent) -> Result<AfterKey, Failure> {
        Ok(self.press(key))
    }

    fn tick(&mut self) -> Result<Option<Duration>, Failure> {
        Ok(self.go_on())
    }
}
