//! A report as text: bars, aligned numbers, losses last; colour only where asked for.

use super::Report;
use crate::analyze::{Count, Histogram};
use crate::info::ClockOffset;
use crate::print::{clipped, columns, counted, duration, fill, shown, thousands};
use std::time::{Duration, UNIX_EPOCH};

/// Rows of each table; what is beyond is summed up in one row.
const ROWS: usize = 12;
/// Rows of the histogram over time.
const HEIGHT: u64 = 5;

/// Renders a report, at most `width` columns wide (at least 60).
pub fn text(report: &Report, width: usize, colour: bool) -> String {
    let mut page = Page {
        out: String::new(),
        width: width.max(60),
        colour,
    };
    page.head(report);
    for table in &report.tables {
        page.table(table.title, &table.rows, report.records);
    }
    if let Some(values) = &report.values {
        let total = values.counts.iter().map(|row| row.count).sum();
        page.table(
            &format!("values of {}", shown(&values.field)),
            &values.counts,
            total,
        );
    }
    page.maps(report);
    page.timeline(&report.timeline);
    page.losses(report);
    page.out
}

/// Facts about a report besides its tables, without colour: where the trace is from, maps of handlers, what is missing.
pub fn about(report: &Report, width: usize) -> String {
    let mut page = Page {
        out: String::new(),
        width,
        colour: false,
    };
    page.head(report);
    page.maps(report);
    page.losses(report);
    page.out
}

#[derive(Clone, Copy)]
enum Ink {
    Title,
    Bar,
    Quiet,
    Good,
    Bad,
}

struct Page {
    out: String,
    width: usize,
    colour: bool,
}

impl Page {
    fn paint(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Title => "1",
            Ink::Bar => "36",
            Ink::Quiet => "2",
            Ink::Good => "32",
            Ink::Bad => "1;31",
        };
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Ends a line, without blanks at its end.
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn head(&mut self, report: &Report) {
        let title = self.paint(
            Ink::Title,
            &format!(
                "{} in {}",
                counted(report.records, "event"),
                duration(report.span_ns)
            ),
        );
        let host = match (report.hostname.as_str(), report.kernel_release.as_str()) {
            ("", "") => String::new(),
            (host, release) => format!(" on {}, Linux {}", shown(host), shown(release)),
        };
        self.line(&format!("{title}{host}"));
        // Files of other tools may not say what time of day it was.
        if report.records > 0
            && let Some(begins_ns) = ClockOffset::default().date_ns(report.begins_ns)
        {
            let begin = UNIX_EPOCH + Duration::from_nanos(begins_ns);
            let begin = format!("from {}", humantime::format_rfc3339_millis(begin));
            let begin = self.paint(Ink::Quiet, &begin);
            self.line(&begin);
        }
        if !report.command.is_empty() {
            let command = self.paint(Ink::Quiet, &clipped(&shown(&report.command), self.width));
            self.line(&command);
        }
    }

    fn title(&mut self, text: &str) {
        let title = self.paint(Ink::Title, text);
        self.line("");
        self.line(&title);
    }

    /// `name  bar  count  share`, the largest bar filling its column.
    fn table(&mut self, title: &str, rows: &[Count], total: u64) {
        if rows.is_empty() {
            return;
        }
        self.title(title);
        let mut rows = cut(rows);
        rows.iter_mut()
            .for_each(|row| row.name = shown(&row.name).into_owned());
        let names = rows.iter().map(|row| columns(&row.name)).max().unwrap_or(0);
        let names = names.clamp(12, self.width / 2);
        let numbers = rows
            .iter()
            .map(|row| thousands(row.count).len())
            .max()
            .unwrap_or(0)
            .max(7);
        let bars = self.width.saturating_sub(names + numbers + 15);
        let most = rows.iter().map(|row| row.count).max().unwrap_or(0);
        for row in rows {
            let filled = bar(row.count, most, bars);
            let blanks = " ".repeat(bars - filled.chars().count());
            let filled = self.paint(Ink::Bar, &filled);
            let name = clip_name(&row.name, names);
            let gap = fill(&name, names);
            let number = thousands(row.count);
            let share = share(row.count, total);
            self.line(&format!(
                "  {name}{gap}  {filled}{blanks}  {number:>numbers$}  {share:>7}"
            ));
        }
    }

    fn maps(&mut self, report: &Report) {
        if report.maps.is_empty() {
            return;
        }
        self.title("maps");
        for line in report.maps.iter().flat_map(|map| map.text.lines()) {
            self.line(&format!("  {}", shown(line)));
        }
    }

    fn timeline(&mut self, histogram: &Histogram) {
        if histogram.counts.is_empty() {
            return;
        }
        let columns = histogram.columns((self.width - 14).min(histogram.counts.len()).max(1));
        let most = columns.iter().copied().max().unwrap_or(0).max(1);
        let span = histogram.end_ns - histogram.begin_ns;
        self.title("over time");
        for row in (0..HEIGHT).rev() {
            let label = match row {
                row if row == HEIGHT - 1 => thousands(most),
                0 => "0".into(),
                _ => String::new(),
            };
            let cells: String = columns.iter().map(|count| cell(*count, most, row)).collect();
            let cells = self.paint(Ink::Bar, &cells);
            self.line(&format!("  {label:>9} ▏{cells}"));
        }
        let end = duration(span);
        let gap = (columns.len() + 1).saturating_sub(end.chars().count() + 1).max(1);
        let scale = self.paint(Ink::Quiet, &format!("0{}{end}", " ".repeat(gap)));
        self.line(&format!("  {:>9}  {scale}", ""));
        let column = self.paint(
            Ink::Quiet,
            &format!("one column = {}", duration(span / columns.len() as u64)),
        );
        self.line(&format!("  {:>9}  {column}", ""));
    }

    fn losses(&mut self, report: &Report) {
        self.line("");
        let lost = self.number("lost", report.lost());
        let overwritten = self.number("overwritten", report.overwritten());
        let damaged = self.number("damaged packets", report.losses.packets_damaged);
        let missing = self.number("absent packets", report.losses.packets_absent);
        self.line(&match report.missed {
            Some(missed) => format!("{lost}, {missed}"),
            None => lost,
        });
        let absent = self.number("absent", report.absent());
        // A count of 0 has no line, but `lost` always has: readers look for it first.
        for (text, count) in [
            (absent, report.absent()),
            (overwritten, report.overwritten()),
            (missing, report.losses.packets_absent),
            (damaged, report.losses.packets_damaged),
        ] {
            if count > 0 {
                self.line(&text);
            }
        }
        for count in report
            .counted
            .iter()
            .flatten()
            .filter(|it| it.lost + it.overwritten > 0)
        {
            self.line(&format!(
                "  {} on CPU {}: lost {}, overwritten {}",
                shown(&count.event),
                count.cpu,
                thousands(count.lost),
                thousands(count.overwritten)
            ));
        }
        for absent in &report.absent {
            self.line(&format!("  {}", shown(&absent.to_string())));
        }
        for note in report.losses.notes.iter().chain(&report.notes) {
            self.line(&format!("  {}", shown(note)));
        }
    }

    fn number(&self, name: &str, count: u64) -> String {
        let ink = if count == 0 { Ink::Good } else { Ink::Bad };
        self.paint(ink, &format!("{name} {}", thousands(count)))
    }
}

/// The first rows, and one for all others.
fn cut(rows: &[Count]) -> Vec<Count> {
    if rows.len() <= ROWS + 1 {
        return rows.to_vec();
    }
    let (first, others) = rows.split_at(ROWS);
    let mut all = first.to_vec();
    all.push(Count {
        name: format!("({})", counted(others.len() as u64, "other")),
        count: others.iter().map(|row| row.count).sum(),
    });
    all
}

/// A horizontal bar in eighths of a column; something is never nothing.
fn bar(count: u64, most: u64, columns: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (u128::from(count) * columns as u128 * 8 / u128::from(most.max(1))) as usize;
    let eighths = eighths.max(usize::from(count > 0));
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

/// One character of a vertical bar; `row` 0 is the lowest.
fn cell(count: u64, most: u64, row: u64) -> char {
    const PARTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = (u128::from(count) * u128::from(HEIGHT) * 8 / u128::from(most)) as u64;
    let eighths = eighths.max(u64::from(count > 0));
    PARTS[eighths.saturating_sub(row * 8).min(8) as usize]
}

fn share(count: u64, total: u64) -> String {
    format!("{:.1} %", count as f64 * 100.0 / total.max(1) as f64)
}

/// A name with its path's folders left out where it is too long: their end distinguishes events of a program.
fn clip_name(name: &str, width: usize) -> String {
    let folders = name.find('/').zip(name.rfind('/'));
    match folders.filter(|(first, last)| first < last && columns(name) > width) {
        Some((first, last)) => clipped(&format!("{}…{}", &name[..first], &name[last..]), width),
        None => clipped(name, width),
    }
}

#[cfg(test)]
mod tests {
    use super::clip_name;

    #[test]
    fn long_names_lose_their_folders_first() {
        let name = "usdt:/opt/shop/bin/shop:tracing:span_enter";
        assert_eq!(clip_name(name, 50), name);
        assert_eq!(clip_name(name, 40), "usdt:…/shop:tracing:span_enter");
        assert_eq!(clip_name(name, 20), "usdt:…/shop:tracing…");
        assert_eq!(clip_name("kworker/0:1-events_unbound", 10), "kworker/0…");
    }
}
