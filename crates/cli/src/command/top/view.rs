//! The view on a terminal: a line of what is looked at, the pages, a table or a histogram, losses, keys.

use super::model::Model;
use super::model::page::{Page, TABS};
use super::plain::{losses, summary};
use super::source::Source;
use crate::exit::Failure;
use crate::terminal::{
    AfterKey, Edited, Help, HelpWindow, KeyCode, KeyEvent, Prompt, View, draw_table, key_line,
    keys::{self, help},
    line, prompt_line, theme, wrapped,
};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use std::time::Duration;

const KEYS: &[Help] = &[
    // First, as lines of few columns have room for some only.
    keys::QUIT,
    keys::HELP,
    help(
        "Enter",
        "into",
        "goes into a row: an event by processes, a map by its keys",
    ),
    keys::FIND,
    keys::SORT,
    keys::REVERSE,
    help("Space", "pause", "pauses the updates, or lets them go on"),
    help("Tab", "next", "goes to the next page; a digit to its page"),
    help(
        "Esc",
        "back",
        "goes back by one step (also Backspace), or drops what is to be found",
    ),
    help("p e c", "by", "tells events apart by process, event or CPU"),
    help(
        "h",
        "histogram",
        "asks for a field of the event, and draws its histogram",
    ),
    help("+ -", "interval", "reads less or more often"),
    keys::STOP,
];

/// The shortest and the longest time between two readings that keys set.
const INTERVALS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(60)];

/// The time after which a second reading follows the first that has something.
const SOON: Duration = Duration::from_millis(500);

/// The full-screen view of `kestrel top`.
pub(super) struct TopView<'s> {
    model: Model,
    source: &'s mut dyn Source,
    interval: Duration,
    help: Option<HelpWindow>,
    /// While a histogram is asked for: its event, its process if there is one, and the expression typed so far.
    histogram: Option<(String, Option<u32>, Prompt)>,
    /// Error message of the last key, until the next key.
    failure: Option<String>,
    /// The first line of a histogram that is longer than the screen.
    scrolled: u16,
}

impl<'s> TopView<'s> {
    pub(super) fn new(source: &'s mut dyn Source, interval: Duration) -> Self {
        Self {
            model: Model::default(),
            source,
            interval,
            help: None,
            histogram: None,
            failure: None,
            scrolled: 0,
        }
    }

    /// A key of the expression that a histogram is asked for.
    fn ask(&mut self, key: KeyEvent) -> AfterKey {
        let Some((event, pid, mut prompt)) = self.histogram.take() else {
            return AfterKey::Stay;
        };
        match prompt.key(key) {
            Edited::More => self.histogram = Some((event, pid, prompt)),
            Edited::Dropped => {}
            Edited::Done if prompt.text().trim().is_empty() => {}
            Edited::Done => match self.source.add_histogram(&event, pid, prompt.text().trim()) {
                Ok(title) => {
                    self.model.go_into_map(&title);
                    return AfterKey::Tick;
                }
                Err(failure) => self.failure = Some(in_one_line(&failure.message)),
            },
        }
        AfterKey::Stay
    }

    fn title(&self) -> Line<'static> {
        let paused = match self.model.paused {
            true => " paused",
            false => "",
        };
        Line::from(vec![
            Span::styled("kestrel top ", theme::title()),
            line(&self.source.title(), Style::new()).spans.remove(0),
            Span::styled(
                format!("  every {} s", self.interval.as_secs_f64()),
                theme::faint(),
            ),
            Span::styled(paused, theme::alarm()),
        ])
    }

    fn tabs(&self) -> Line<'static> {
        let mut spans = Vec::new();
        for (number, (key, name)) in TABS.iter().enumerate() {
            let style = match number == self.model.tab() {
                true => theme::chosen(),
                false => Style::new(),
            };
            spans.push(Span::styled(format!(" {key} {name} "), style));
            spans.push(Span::raw(" "));
        }
        spans.push(Span::styled(format!(" {}", summary(&self.model)), theme::faint()));
        Line::from(spans)
    }

    fn path(&mut self) -> Line<'static> {
        let path = self.model.path();
        let table = self.model.table();
        let (shown, all) = (table.shown().len(), table.count());
        let filter = match table.filter() {
            "" => String::new(),
            filter => format!("  /{filter}: {shown} of {all}"),
        };
        line(&format!("{path}{filter}"), theme::title())
    }

    fn body(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let room = area.height;
        if let Some(entry) = self.model.entry() {
            let lines: Vec<Line<'_>> = entry.whole.lines().map(histogram_line).collect();
            let most = u16::try_from(lines.len())
                .unwrap_or(u16::MAX)
                .saturating_sub(room);
            self.scrolled = self.scrolled.min(most);
            frame.render_widget(Paragraph::new(lines).scroll((self.scrolled, 0)), area);
            return;
        }
        if self.model.table().shown().len() == 0 {
            let words = self.nothing();
            let words = Paragraph::new(line(words, theme::faint()));
            frame.render_widget(words.wrap(Wrap { trim: true }), area);
            return;
        }
        draw_table(frame, area, self.model.table());
    }

    /// Why there is no row.
    fn nothing(&mut self) -> &'static str {
        if !self.model.table().filter().is_empty() {
            return "no row has these words: Esc drops the filter";
        }
        match self.model.page() {
            Page::Hits(..) if self.model.now().causes.is_some() => {
                "no record has been read yet: the processes of a session are those of its records"
            }
            Page::Hits(..) => "no event has come yet",
            Page::Maps => {
                "no handler keeps a map: kestrel top -e 'sched:sched_switch { @[comm] = count() }' has one"
            }
            Page::Map(..) | Page::Entry(..) => "nothing is in it yet",
            Page::Buffers => "no buffer: the events are counted, not recorded",
        }
    }
}

/// Error message in one line, its hint behind it: what would be said of it, without colours and without where it stands.
fn in_one_line(message: &str) -> String {
    let lines: Vec<String> = message.lines().map(without_colours).collect();
    let first = lines.first().map_or("", String::as_str);
    let what = first.split_once(" error: ").map_or(first, |(_, what)| what);
    match lines
        .iter()
        .find_map(|line| line.trim_start().strip_prefix("hint: "))
    {
        Some(hint) => format!("{what}; {hint}"),
        None => what.to_owned(),
    }
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    plain.extend(parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text)));
    plain
}

/// A line of a histogram, its bar in the colour of bars.
fn histogram_line(text: &str) -> Line<'static> {
    let Some(at) = text.find('|') else {
        return line(text, Style::new());
    };
    let (label, bar) = text.split_at(at);
    let span = |text, style| line(text, style).spans.into_iter();
    let spans = span(label, Style::new()).chain(span(bar, Style::new()).map(|it| it.style(theme::bar())));
    Line::from(spans.collect::<Vec<_>>())
}

impl View for TopView<'_> {
    fn draw(&mut self, frame: &mut Frame<'_>) {
        let losses: Vec<String> = losses(self.model.now());
        let notes = &self.model.now().notes;
        let failed = self.failure.iter().cloned();
        let area = frame.area();
        // Long notes must not push the rows off the screen.
        let room = (usize::from(area.width), usize::from(area.height / 8).max(1));
        let alarms = failed
            .chain(losses)
            .flat_map(|text| wrapped(&text, room, theme::alarm()));
        let below: Vec<Line<'_>> = alarms
            .chain(notes.iter().flat_map(|text| wrapped(text, room, theme::faint())))
            .collect();
        let height = |lines: usize| Constraint::Length(u16::try_from(lines).unwrap_or(u16::MAX));
        let [title, tabs, path, body, under, bottom] = Layout::vertical([
            height(1),
            height(1),
            height(1),
            Constraint::Min(2),
            height(below.len()),
            height(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.title()), title);
        frame.render_widget(Paragraph::new(self.tabs()), tabs);
        let words = self.path();
        frame.render_widget(Paragraph::new(words), path);
        self.body(frame, body);
        frame.render_widget(Paragraph::new(below), under);
        match &self.histogram {
            Some((event, _, prompt)) => {
                prompt_line(
                    frame,
                    bottom,
                    &format!("histogram of a field of {event}: "),
                    prompt,
                );
            }
            None => key_line(frame, bottom, KEYS, Some(self.model.table())),
        }
        if let Some(help) = &mut self.help {
            help.draw(frame, "keys of kestrel top", KEYS);
        }
    }

    fn key(&mut self, key: KeyEvent) -> Result<AfterKey, Failure> {
        if let Some(help) = &mut self.help {
            if !help.key(key) {
                self.help = None;
            }
            return Ok(AfterKey::Stay);
        }
        self.failure = None;
        if self.histogram.is_some() {
            return Ok(self.ask(key));
        }
        let is_typing = self.model.table().prompt().is_some();
        let is_entry = self.model.entry().is_some();
        let known = self.model.wanted();
        match key.code {
            _ if is_typing => _ = self.model.key(key),
            KeyCode::Char('q') => return Ok(AfterKey::Quit),
            KeyCode::Char('?') | KeyCode::F(1) => self.help = Some(HelpWindow::default()),
            KeyCode::Char(' ') => {
                self.model.paused = !self.model.paused;
                return Ok(AfterKey::Tick);
            }
            KeyCode::Char('h') => match self.model.event() {
                Some((event, pid)) => self.histogram = Some((event, pid, Prompt::default())),
                None => self.failure = Some("choose an event first: histograms are of its fields".to_owned()),
            },
            // -I may have asked for more than keys do: neither goes the other way.
            KeyCode::Char('+') => self.interval = self.interval.max((self.interval * 2).min(INTERVALS[1])),
            KeyCode::Char('-') => {
                self.interval = self.interval.min((self.interval / 2).max(INTERVALS[0]));
                if !self.model.paused {
                    return Ok(AfterKey::Tick);
                }
            }
            KeyCode::Down | KeyCode::Char('j') if is_entry => self.scrolled = self.scrolled.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') if is_entry => self.scrolled = self.scrolled.saturating_sub(1),
            _ => {
                self.scrolled = 0;
                self.model.key(key);
            }
        }
        // Parts that were not asked for before have to be read first.
        let asks_more = !known.covers(self.model.wanted());
        Ok(match asks_more && !self.model.paused {
            true => AfterKey::Tick,
            false => AfterKey::Stay,
        })
    }

    fn tick(&mut self) -> Result<Option<Duration>, Failure> {
        if self.model.paused {
            return Ok(None);
        }
        let reading = self.source.read(self.model.wanted())?;
        self.model.take(reading);
        // Two readings make a rate: the second comes soon.
        Ok(Some(match self.model.has_rates() {
            false => self.interval.min(SOON),
            true => self.interval,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::top::reading::{Hits, MapReading, Reading, ReadingParts};
    use crate::terminal::testing::{picture, press};
    use kestrel_trace::aggregate::Entry;

    /// Readings that were made before.
    struct Made(Vec<Reading>);

    impl Source for Made {
        fn read(&mut self, wanted: ReadingParts) -> Result<Reading, Failure> {
            let mut reading = self.0.remove(0);
            reading.knows = ReadingParts {
                processes: true,
                ..wanted
            };
            Ok(reading)
        }

        fn add_histogram(
            &mut self,
            event: &str,
            _: Option<u32>,
            expression: &str,
        ) -> Result<String, Failure> {
            match expression {
                "nosuch" => Err(Failure::new(crate::exit::Exit::Usage, "no field nosuch\nbelow")),
                _ => Ok(format!("{event} {expression}")),
            }
        }

        fn title(&self) -> String {
            "sched:*\x1b[2J".to_owned()
        }
    }

    fn readings() -> Made {
        let reading = |seconds, count| Reading {
            at: Duration::from_secs(seconds),
            hits: vec![
                Hits::of("sched:sched_switch", 7, "sh\x1b]0;x\x07", 0, count),
                Hits::of("irq:softirq_entry", 8, "cat", 1, 5),
            ],
            missed: vec![(String::new(), "irq:softirq_entry".to_owned(), 2)],
            maps: vec![MapReading {
                title: "@us".to_owned(),
                function: "hist".to_owned(),
                entries: vec![Entry {
                    key: String::new(),
                    value: "3 values".to_owned(),
                    whole: "[2, 4)      3 |@@@@   |".to_owned(),
                    weight: 3,
                }],
                ..MapReading::default()
            }],
            ..Reading::default()
        };
        Made((1..9).map(|n| reading(n, n * 1000)).collect())
    }

    fn after(keys: &[KeyCode], columns: u16, lines: u16) -> String {
        let mut source = readings();
        let mut view = TopView::new(&mut source, Duration::from_secs(2));
        for _ in 0..2 {
            view.tick().unwrap_or_default();
        }
        for key in keys {
            if view.key(press(*key)).is_ok_and(|then| then == AfterKey::Tick) {
                view.tick().unwrap_or_default();
            }
        }
        picture(&mut view, columns, lines)
    }

    #[test]
    fn events_stand_below_the_current_scope() {
        assert_eq!(
            after(&[], 80, 9),
            "kestrel top sched:*\\x1b[2J  every 2 s\n \
             1 events   2 processes   3 maps   4 buffers   2,005 events, 1,000 per second\n\
             events\n\
             event               per second  total  lost  missed\n\
             sched:sched_switch       1,000  2,000     0       0\n\
             irq:softirq_entry            0      5     0       2\n\n\
             missed 2 events: a program was running already on that CPU\n\
             q quit  Enter into  / find  < > sort  R reverse  Space pause  Tab next  ? help\n"
        );
    }

    #[test]
    fn words_in_place_of_rows_are_not_cut_at_the_edge() {
        let mut source = Made((0..2).map(|_| Reading::default()).collect());
        let mut view = TopView::new(&mut source, Duration::from_secs(2));
        view.tick().unwrap_or_default();
        assert!(view.key(press(KeyCode::Char('3'))).is_ok());
        let shown = picture(&mut view, 40, 10);
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("{ @[comm] = count() }' has one"), "{shown}");
    }

    #[test]
    fn names_of_others_do_not_steer_the_terminal() {
        let shown = after(&[KeyCode::Char('2')], 80, 9);
        assert!(
            shown.contains("sh\\x1b]0;x\\x07    7       1,000  3,000"),
            "{shown}"
        );
    }

    #[test]
    fn a_map_without_keys_is_shown_as_its_histogram() {
        let shown = after(&[KeyCode::Char('3'), KeyCode::Enter], 60, 9);
        assert!(shown.contains("maps › @us\n[2, 4)      3 |@@@@   |\n"), "{shown}");
    }

    #[test]
    fn a_histogram_of_a_field_is_asked_for() {
        let typed = |text: &str| -> Vec<KeyCode> {
            let letters = text.chars().map(KeyCode::Char);
            std::iter::once(KeyCode::Char('h')).chain(letters).collect()
        };
        let shown = after(&typed("prio q"), 80, 9);
        assert!(
            shown.ends_with("histogram of a field of sched:sched_switch: prio q\n"),
            "{shown}"
        );
        let done = |text| [typed(text), vec![KeyCode::Enter]].concat();
        let shown = after(&done("prio"), 80, 9);
        assert!(
            shown.contains("events › sched:sched_switch prio\nnothing is in it yet"),
            "{shown}"
        );
        let shown = after(&done("nosuch"), 80, 10);
        assert!(
            shown.contains("\nno field nosuch\n") && !shown.contains("below"),
            "{shown}"
        );
        assert!(shown.contains("sched:sched_switch       1,000"), "{shown}");
    }

    #[test]
    fn an_error_in_a_field_is_shown_as_one_plain_line() {
        let message =
            "\x1b[1m<event>:1:31:\x1b[0m \x1b[1;31merror:\x1b[0m \x1b[1munknown name\x1b[0m\n  below";
        assert_eq!(in_one_line(message), "unknown name");
        let hinted = format!("{message}\n  \x1b[1mhint:\x1b[0m there are: prio, pid");
        assert_eq!(in_one_line(&hinted), "unknown name; there are: prio, pid");
        assert_eq!(in_one_line("no such event"), "no such event");
    }

    #[test]
    fn the_page_about_it_has_every_key() {
        keys::assert_page(include_str!("../../../../../docs/live.md"), KEYS);
    }

    #[test]
    fn keys_pause_help_and_quit() {
        let shown = after(&[KeyCode::Char(' ')], 80, 9);
        assert!(
            shown.lines().next().is_some_and(|line| line.ends_with("paused")),
            "{shown}"
        );
        let shown = after(&[KeyCode::Char('?')], 80, 24);
        assert!(shown.contains("keys of kestrel top"), "{shown}");
        // Whatever the size, nothing fails.
        for (columns, lines) in [(1, 1), (5, 3), (200, 50)] {
            after(&[KeyCode::Char('?')], columns, lines);
        }
        let mut source = readings();
        let mut view = TopView::new(&mut source, Duration::from_secs(2));
        assert!(
            view.key(press(KeyCode::Char('q')))
                .is_ok_and(|then| then == AfterKey::Quit)
        );
    }
}
