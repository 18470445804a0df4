//! Writes families of metrics as text: in the Prometheus text format 0.0.4 or as OpenMetrics 1.0.

use std::fmt::Write;

/// Format of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text format 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that an `Accept` header asks for.
    pub fn accepted(header: &str) -> Self {
        let open = header.split(',').filter_map(|part| part.split(';').next());
        if open
            .map(str::trim)
            .any(|name| name == "application/openmetrics-text")
        {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The format's `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A counter, which only grows, from 0; its samples have names with `_total`.
    Counter,
    /// A gauge, which goes up and down.
    Gauge,
    /// A summary, with the samples `_count` and `_sum`.
    Summary,
    /// A histogram, with samples `_bucket` by the label `le`, and `_count`.
    Histogram,
}

impl MetricKind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
            Self::Histogram => "histogram",
        }
    }
}

/// A family of metrics: samples with one name and meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name, without `_total`.
    pub name: &'static str,
    /// The meaning of its numbers.
    pub kind: MetricKind,
    /// The metric's description.
    pub help: &'static str,
    /// The family's samples.
    pub samples: Vec<Sample>,
}

/// A sample: one number of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Suffix of the family's name: `_bucket`.
    pub suffix: &'static str,
    /// The labels: names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The sample's value.
    pub value: Number,
}

/// A number that is written as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "they speak for themselves")]
pub enum Number {
    Whole(i128),
    Real(f64),
}

impl From<u64> for Number {
    fn from(n: u64) -> Self {
        Self::Whole(n.into())
    }
}

impl From<bool> for Number {
    fn from(n: bool) -> Self {
        Self::Whole(n.into())
    }
}

impl Family {
    /// A family without numbers yet.
    pub fn new(name: &'static str, kind: MetricKind, help: &'static str) -> Self {
        Self {
            name,
            kind,
            help,
            samples: Vec::new(),
        }
    }

    /// Adds a number.
    pub fn add(&mut self, labels: &[(&'static str, &str)], value: impl Into<Number>) {
        let suffix = if self.kind == MetricKind::Counter {
            "_total"
        } else {
            ""
        };
        self.add_part(suffix, labels, value);
    }

    /// Adds a number of a summary or histogram.
    pub(crate) fn add_part(
        &mut self,
        suffix: &'static str,
        labels: &[(&'static str, &str)],
        value: impl Into<Number>,
    ) {
        self.samples.push(Sample {
            suffix,
            labels: labels
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            value: value.into(),
        });
    }
}

/// Writes all families that have samples.
pub fn text(families: &[Family], format: Format) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        // The older format gives a counter the name of its samples.
        let name = match (format, family.kind) {
            (Format::Prometheus, MetricKind::Counter) => format!("{}_total", family.name),
            _ => family.name.to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP {name} {}", escaped(family.help, format));
        let _ = writeln!(out, "# TYPE {name} {}", family.kind.name());
        for sample in &family.samples {
            line(family, sample, &mut out);
        }
    }
    if format == Format::OpenMetrics {
        out += "# EOF\n";
    }
    out
}

fn line(family: &Family, sample: &Sample, out: &mut String) {
    let _ = write!(out, "{}{}", family.name, sample.suffix);
    for (index, (name, value)) in sample.labels.iter().enumerate() {
        let open = if index == 0 { '{' } else { ',' };
        let _ = write!(out, "{open}{name}=\"{}\"", escaped(value, Format::OpenMetrics));
    }
    if !sample.labels.is_empty() {
        out.push('}');
    }
    let _ = match sample.value {
        Number::Whole(n) => writeln!(out, " {n}"),
        Number::Real(n) if n.is_nan() => writeln!(out, " NaN"),
        Number::Real(n) if n.is_infinite() => writeln!(out, " {}Inf", if n > 0.0 { '+' } else { '-' }),
        Number::Real(n) => writeln!(out, " {n}"),
    };
}

/// A label's value, or help; in the help of the older format quotes stand for themselves.
fn escaped(text: &str, format: Format) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '"' if format == Format::OpenMetrics => out += "\\\"",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_say_the_same_in_their_own_way() {
        let mut events = Family::new("k_events", MetricKind::Counter, "Say \"how many\".");
        events.add(&[("event", "a\"b\\c\nd"), ("cpu", "0")], 7u64);
        let mut fill = Family::new("k_fill", MetricKind::Gauge, "How full.");
        fill.add(&[], Number::Real(0.5));
        let none = Family::new("k_none", MetricKind::Gauge, "Nothing.");
        let all = [events, fill, none];
        assert_eq!(
            text(&all, Format::Prometheus),
            "# HELP k_events_total Say \"how many\".\n# TYPE k_events_total counter\n\
             k_events_total{event=\"a\\\"b\\\\c\\nd\",cpu=\"0\"} 7\n\
             # HELP k_fill How full.\n# TYPE k_fill gauge\nk_fill 0.5\n"
        );
        assert_eq!(
            text(&all, Format::OpenMetrics),
            "# HELP k_events Say \\\"how many\\\".\n# TYPE k_events counter\n\
             k_events_total{event=\"a\\\"b\\\\c\\nd\",cpu=\"0\"} 7\n\
             # HELP k_fill How full.\n# TYPE k_fill gauge\nk_fill 0.5\n# EOF\n"
        );
    }

    #[test]
    fn the_format_is_the_one_that_the_reader_accepts() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        for other in [
            "",
            "*/*",
            "text/plain; version=0.0.4",
            "application/openmetrics-textual",
        ] {
            assert_eq!(Format::accepted(other), Format::Prometheus, "{other}");
        }
    }
}
