//! Layout of the explorer's screen: the recording's origin, the histogram over time, tabs, a table or lines, keys.

use super::explorer::{Explorer, Mode, Typing};
use super::losses::{is_whole, losses_line};
use super::tables::{self, Tab};
use super::{help, timeline};
use crate::terminal::{Help, draw_table, folded, key_line, line, theme, wrapped};
use kestrel_trace::print::{counted, duration, shown, thousands};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

/// Columns on the left of the histogram: its scale.
const SCALE: u16 = 10;
/// Below so many lines the histogram is low.
const LOW: u16 = 30;
/// Below so many lines there is none: rows come first.
const LOWEST: u16 = 14;

/// Draws the explorer: header, the page at hand, footer.
pub(super) fn draw(explorer: &mut Explorer, frame: &mut Frame<'_>) {
    let mut rest = frame.area();
    let mut next = |height: u16| {
        let area = Rect {
            height: height.min(rest.height),
            ..rest
        };
        rest.y += area.height;
        rest.height -= area.height;
        area
    };
    // A range of times is chosen in the histogram.
    let is_selecting = matches!(explorer.mode, Mode::Selecting(_));
    let bars_and_scale = match frame.area().height {
        0..LOWEST if !is_selecting => 0,
        0..LOWEST => 3,
        LOWEST..LOW => 4,
        _ => 7,
    };
    let (head, steps) = (next(1), next(1));
    let (histogram, tabs) = (next(bars_and_scale), next(1));
    let height = frame
        .area()
        .height
        .saturating_sub(head.height + steps.height + histogram.height + tabs.height);
    let body = next(height.saturating_sub(2));
    let (remark, keys) = (next(1), next(1));
    draw_head(explorer, frame, head);
    draw_steps(explorer, frame, steps);
    draw_histogram(explorer, frame, histogram);
    draw_tabs(explorer, frame, tabs);
    draw_body(explorer, frame, body);
    draw_remark(explorer, frame, remark);
    match &explorer.mode {
        Mode::Typing(typing) => draw_typing(typing, frame, body, keys),
        Mode::Selecting(_) => key_line(frame, keys, SELECTING, None),
        _ => draw_keys(explorer, frame, keys),
    }
    match &mut explorer.mode {
        Mode::Help(window) => window.draw(frame, "keys", &help::all()),
        Mode::Reading(title, lines, at) => draw_text(frame, title, lines, at),
        _ => {}
    }
}

const SELECTING: &[Help] = &[
    Help {
        key: "← →",
        brief: "move (Shift: by 10)",
        about: "",
    },
    Help {
        key: "Space",
        brief: "begins here",
        about: "",
    },
    Help {
        key: "Enter",
        brief: "looks at these times",
        about: "",
    },
    Help {
        key: "Esc",
        brief: "back",
        about: "",
    },
];

fn draw_head(explorer: &Explorer, frame: &mut Frame<'_>, area: Rect) {
    let Some(report) = &explorer.level().report else {
        let text = match explorer.level().failure() {
            Some(_) => "the recording cannot be read".to_owned(),
            None => format!("reading {}", explorer.jobs.source.path.display()),
        };
        return frame.render_widget(Paragraph::new(line(&text, theme::title())), area);
    };
    let style = match is_whole(report) {
        true => theme::faint(),
        false => theme::alarm(),
    };
    let events = format!(
        "{} in {}",
        counted(report.records, "event"),
        duration(report.span_ns)
    );
    let host = format!(
        " on {}, Linux {}",
        shown(&report.hostname),
        shown(&report.kernel_release)
    );
    let parts = vec![
        Span::styled(events, theme::title()),
        Span::styled(format!("  {}", losses_line(report)), style),
        Span::raw(format!(" {host}")),
    ];
    frame.render_widget(Paragraph::new(Line::from(parts)), area);
}

/// The steps that led here.
fn draw_steps(explorer: &Explorer, frame: &mut Frame<'_>, area: Rect) {
    let path = explorer.jobs.source.path.to_string_lossy();
    let mut parts = vec![Span::styled(shown(&path).into_owned(), theme::faint())];
    for label in explorer.level().scope.labels() {
        parts.push(Span::styled(" > ", theme::faint()));
        parts.push(Span::styled(label.to_owned(), theme::key()));
    }
    let mut steps = Line::from(parts);
    // The last steps are those that matter.
    while steps.width() > usize::from(area.width) && steps.spans.len() > 2 {
        steps.spans.drain(..2);
        if let Some(first) = steps.spans.first_mut() {
            first.content = format!("… > {}", first.content).into();
        }
    }
    frame.render_widget(Paragraph::new(steps), area);
}

fn draw_histogram(explorer: &mut Explorer, frame: &mut Frame<'_>, area: Rect) {
    let room = area.width.saturating_sub(SCALE + 1);
    explorer.columns = usize::from(room);
    let Some(report) = &explorer.level().report else {
        return;
    };
    let histogram = &report.timeline;
    if histogram.counts.is_empty() || room == 0 || area.height < 2 {
        return;
    }
    let counts = histogram.columns(timeline::columns(histogram, usize::from(room)));
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let rows = area.height - 1;
    let chosen = match &explorer.mode {
        Mode::Selecting(selecting) => Some(selecting.columns()),
        _ => None,
    };
    for row in 0..rows {
        let label = match row {
            0 => thousands(most),
            row if row == rows - 1 => "0".to_owned(),
            _ => String::new(),
        };
        let mut spans = vec![Span::styled(format!("{label:>9} "), theme::faint())];
        for (column, count) in counts.iter().enumerate() {
            let cell = bar(*count, most, rows, rows - 1 - row);
            let style = match chosen.as_ref().is_some_and(|chosen| chosen.contains(&column)) {
                true => theme::bar().add_modifier(Modifier::REVERSED),
                false => theme::bar(),
            };
            spans.push(Span::styled(cell, style));
        }
        let place = Rect {
            y: area.y + row,
            height: 1,
            ..area
        };
        frame.render_widget(Paragraph::new(Line::from(spans)), place);
    }
    let since = |ns: u64| duration(ns.saturating_sub(explorer.jobs.source.begin_ns));
    let scale = match &chosen {
        // While a range is chosen, the scale gives its times and events instead of those of the whole.
        Some(chosen) => {
            let times = timeline::times(histogram, counts.len(), chosen);
            let inside = counts.get(chosen.clone()).unwrap_or_default().iter().sum();
            format!(
                "{} to {}: {}",
                since(*times.start()),
                since(*times.end()),
                counted(inside, "event")
            )
        }
        None => {
            let (begin, end) = (since(histogram.begin_ns), since(histogram.end_ns));
            let free = counts
                .len()
                .saturating_sub(begin.chars().count() + end.chars().count());
            format!("{begin}{}{end}", " ".repeat(free.max(1)))
        }
    };
    let place = Rect {
        y: area.y + rows,
        height: 1,
        x: area.x + SCALE.min(area.width),
        width: room,
    };
    frame.render_widget(Paragraph::new(Line::styled(scale, theme::faint())), place);
}

/// One row of a bar, counted from below; a count above 0 draws at least an eighth.
fn bar(count: u64, most: u64, rows: u16, row: u16) -> &'static str {
    const PARTS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let eighths = (u128::from(count) * u128::from(rows) * 8 / u128::from(most)) as u64;
    let eighths = eighths.max(u64::from(count > 0));
    PARTS[eighths.saturating_sub(u64::from(row) * 8).min(8) as usize]
}

fn draw_tabs(explorer: &Explorer, frame: &mut Frame<'_>, area: Rect) {
    let mut spans = Vec::new();
    for (place, (tab, name)) in explorer.tabs().into_iter().enumerate() {
        let style = match tab == explorer.level().tab {
            true => theme::chosen(),
            false => Style::new(),
        };
        spans.push(Span::styled((place + 1).to_string(), theme::key()));
        spans.push(Span::styled(name, style));
        spans.push(Span::raw(" "));
        // The chosen tab is on the screen: where it has no room, those on the left give way.
        while tab == explorer.level().tab
            && spans.len() > 3
            && spans.iter().map(Span::width).sum::<usize>() > usize::from(area.width)
        {
            spans.drain(..3);
        }
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn draw_body(explorer: &mut Explorer, frame: &mut Frame<'_>, area: Rect) {
    let level = explorer.level_mut();
    if level.tab == Tab::Records && level.report.is_some() {
        return draw_records(explorer, frame, area);
    }
    if let Some(failure) = level.failure() {
        let lines: Vec<Line<'_>> = failure.lines().map(|text| line(text, theme::alarm())).collect();
        return frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
    }
    if let Some(shown) = level.table_mut() {
        draw_table(frame, area, &mut shown.table);
    }
}

fn draw_records(explorer: &mut Explorer, frame: &mut Frame<'_>, area: Rect) {
    let level = explorer.level_mut();
    let total = level.index.records();
    level.records.fit(area.height.into(), total);
    let records = &level.records;
    let width = usize::from(area.width);
    let end = (records.top + u64::from(area.height)).min(total);
    let lines = (records.top..end).map(|number| {
        let style = match number == records.at {
            true => theme::chosen(),
            false => Style::new(),
        };
        let Some(found) = records.line(number) else {
            return Line::styled("…", theme::faint());
        };
        let more = match found.more {
            0 => String::new(),
            more => format!(" (+{more})"),
        };
        let text: String = found
            .text
            .chars()
            .skip(records.left)
            .chain(more.chars())
            .collect();
        line(&format!("{text:<width$}"), style)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// The line below what is shown: how much of it there is, and what is going on.
fn draw_remark(explorer: &Explorer, frame: &mut Frame<'_>, area: Rect) {
    let level = explorer.level();
    let mut parts = Vec::new();
    if let Some(percent) = level.percent() {
        parts.push(Span::styled(format!("reading {percent} %  "), theme::title()));
    }
    if let Some(notice) = &explorer.notice {
        parts.push(Span::styled(shown(notice).into_owned(), theme::alarm()));
    } else if level.tab == Tab::Records {
        let total = level.index.records();
        if total > 0 {
            let text = format!(
                "record {} of {}",
                thousands(level.records.at + 1),
                thousands(total)
            );
            parts.push(Span::styled(text, theme::faint()));
        }
        if let Some(failure) = level.failure() {
            parts.push(Span::styled(format!("  {}", shown(failure)), theme::alarm()));
        }
    } else if let Some(found) = level.table() {
        let mut text = tables::rows(&found.table);
        if !found.table.filter().is_empty() {
            text.push_str(&format!(" with {}", found.table.filter()));
        }
        if let Some(remark) = &found.remark {
            text.push_str(&format!("; {remark}"));
        }
        parts.push(Span::styled(shown(&text).into_owned(), theme::faint()));
    }
    if level.report.as_ref().is_some_and(|report| report.records == 0) {
        parts = vec![Span::styled("no event matches; Esc goes back", theme::alarm())];
    }
    frame.render_widget(Paragraph::new(Line::from(parts)), area);
}

fn draw_keys(explorer: &Explorer, frame: &mut Frame<'_>, area: Rect) {
    let level = explorer.level();
    let own = match level.tab {
        Tab::Graph => help::GRAPH,
        Tab::Records => help::RECORDS,
        Tab::Latencies => help::LATENCIES,
        _ => help::TABLES,
    };
    let keys = [own, help::ALWAYS].concat();
    key_line(frame, area, &keys, level.table().map(|shown| &shown.table));
}

/// The line that is typed, and above it what is wrong with it.
fn draw_typing(typing: &Typing, frame: &mut Frame<'_>, body: Rect, area: Rect) {
    let label = typing.what.label();
    let (before, text) = (label.chars().count(), typing.prompt.text());
    // The end of a long line is what is typed at.
    let room = usize::from(area.width).saturating_sub(before + 1).max(1);
    let hidden = (typing.prompt.column() + 1).saturating_sub(room);
    let seen: String = text.chars().skip(hidden).collect();
    let parts = vec![
        Span::styled(label, theme::key()),
        Span::raw(shown(&seen).into_owned()),
    ];
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(Line::from(parts)), area);
    let column = u16::try_from(before + typing.prompt.column() - hidden).unwrap_or(u16::MAX);
    let column = area.x.saturating_add(column).min(area.right().saturating_sub(1));
    frame.set_cursor_position(Position::new(column, area.y));
    if typing.wrong.is_empty() {
        return;
    }
    let width = usize::from(body.width.saturating_sub(2));
    let lines: Vec<Line<'_>> = typing
        .wrong
        .iter()
        .flat_map(|text| {
            // The line that is wrong and the marks below it keep their spaces.
            match text.starts_with("    ") {
                true => vec![line(text, theme::alarm())],
                false => wrapped(text.trim_start(), (width, usize::MAX), theme::alarm()),
            }
        })
        .collect();
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(body.height);
    let place = Rect {
        y: body.bottom() - height,
        height,
        ..body
    };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered()), place);
}

/// A text above all else.
fn draw_text(frame: &mut Frame<'_>, title: &str, lines: &[String], at: &mut usize) {
    let screen = frame.area();
    let width = usize::from(screen.width.saturating_sub(2));
    // Folded before they are counted: the end of a long line can be scrolled to.
    let lines: Vec<String> = lines.iter().flat_map(|text| folded(text, width)).collect();
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(screen.height);
    let room = usize::from(height.saturating_sub(2));
    *at = (*at).min(lines.len().saturating_sub(room));
    let area = Rect {
        y: screen.y + (screen.height - height) / 2,
        height,
        ..screen
    };
    let shown: Vec<Line<'_>> = lines
        .iter()
        .skip(*at)
        .map(|text| line(text, Style::new()))
        .collect();
    let title = match lines.len() > room {
        true => format!(
            " {title}: lines {} to {} of {} ",
            *at + 1,
            *at + room,
            lines.len()
        ),
        false => format!(" {title} "),
    };
    frame.render_widget(Clear, area);
    let text = Paragraph::new(shown).block(Block::bordered().title(title));
    frame.render_widget(text, area);
}
