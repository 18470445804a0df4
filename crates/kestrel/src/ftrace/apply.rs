//! A filter added to event specifications: to the predicate of each event, by the event's own fields.

use super::filter::predicate;
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::ast::{EventSpec, Probe};
use kestrel_compiler::lang::glob::Glob;
use kestrel_compiler::lang::parse_probes;
use kestrel_kernel::tracefs::{EventName, Format, Tracefs};

/// An event specification with a filter of tracefs added to the predicates of its events. A pattern becomes several specifications where the filter's words are fields of
/// some of its events only.
///
/// # Errors
/// A filter that is wrong, or does not fit an event's fields.
pub fn filtered(text: &str, filter: &str, catalog: &Catalog) -> Result<String> {
    let (probes, found) = parse_probes(text);
    if !found.is_empty() {
        // The planner says what is wrong with the text.
        return Ok(text.to_owned());
    }
    let tracefs = Tracefs::mount(catalog.host()).ok();
    let mut rows: Vec<String> = Vec::new();
    for probe in &probes {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for event in &probe.events {
            let written = slice(text, event.span.start, event.span.end);
            let meanings =
                meanings(event, written, filter, tracefs.as_ref()).map_err(|found| Error::Program {
                    source_text: filter.to_owned(),
                    diagnostics: vec![found],
                })?;
            for (name, meaning) in meanings {
                match groups.iter_mut().find(|(known, _)| *known == meaning) {
                    Some((_, names)) => names.push(name),
                    None => groups.push((meaning, vec![name])),
                }
            }
        }
        rows.extend(
            groups
                .into_iter()
                .map(|(meaning, names)| row(text, probe, &names, &meaning)),
        );
    }
    Ok(rows.join(" "))
}

fn slice(text: &str, start: u32, end: u32) -> &str {
    text.get(start as usize..end as usize).unwrap_or_default()
}

/// A probe with a predicate before its own.
fn row(text: &str, probe: &Probe, names: &[String], meaning: &str) -> String {
    let events = names.join(",");
    let behind = probe
        .events
        .last()
        .map_or(probe.span.start, |event| event.span.end);
    let rest = slice(text, behind, probe.span.end).trim();
    let Some(own) = &probe.predicate else {
        return format!("{events} /{meaning}/ {rest}").trim_end().to_owned();
    };
    // Behind it stand closing parentheses, which are not part of the expression, then the slash.
    let from = own.span.end - behind;
    let whole = slice(text, behind, probe.span.end);
    let slash = whole[from as usize..]
        .find('/')
        .map_or(whole.len(), |at| from as usize + at);
    let first = whole.find('/').map_or(0, |at| at + 1);
    let (own, rest) = (
        &whole[first..slash],
        whole.get(slash + 1..).unwrap_or_default().trim(),
    );
    format!("{events} /({meaning}) && ({})/ {rest}", own.trim())
        .trim_end()
        .to_owned()
}

/// Meanings of a filter for the events that a name stands for: one row where it means the same for all.
fn meanings(
    event: &EventSpec,
    written: &str,
    filter: &str,
    tracefs: Option<&Tracefs>,
) -> std::result::Result<Vec<(String, String)>, kestrel_compiler::lang::diag::Diagnostic> {
    let mut all: Vec<(String, String)> = Vec::new();
    for name in tracefs
        .map(|tracefs| tracepoints(event, tracefs))
        .unwrap_or_default()
    {
        let format: Option<Format> = tracefs.and_then(|tracefs| tracefs.format(&name.group, &name.name).ok());
        let meaning = predicate(filter, format.as_ref())?;
        all.push((format!("tracepoint:{}:{}", name.group, name.name), meaning));
    }
    match all.split_first() {
        None => Ok(vec![(written.to_owned(), predicate(filter, None)?)]),
        Some(((_, first), rest)) if rest.iter().all(|(_, meaning)| meaning == first) => {
            Ok(vec![(written.to_owned(), first.clone())])
        }
        Some(_) => Ok(all),
    }
}

/// The tracepoints that a name stands for; none where it is of another kind of events.
fn tracepoints(event: &EventSpec, tracefs: &Tracefs) -> Vec<EventName> {
    let parts: Vec<&str> = event.parts.iter().map(|part| part.text.as_str()).collect();
    let (group, name) = match parts.as_slice() {
        ["tracepoint" | "t", group, name] | [group, name] => (*group, *name),
        _ => return Vec::new(),
    };
    if !format!("{group}{name}").contains(['*', '?', '[']) {
        return vec![EventName {
            group: group.to_owned(),
            name: name.to_owned(),
        }]
        .into_iter()
        .filter(|it| tracefs.has(&it.group, &it.name).unwrap_or(false))
        .collect();
    }
    let (Ok(groups), Ok(names)) = (Glob::parse(group), Glob::parse(name)) else {
        return Vec::new();
    };
    let is_meant = |it: &EventName| groups.matches(it.group.as_bytes()) && names.matches(it.name.as_bytes());
    let mut events = tracefs.events().unwrap_or_default();
    events.retain(is_meant);
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_kernel::Host;

    /// A catalog over a tracefs of two events, of which one has a field of its own called comm.
    fn tree() -> (tempfile::TempDir, Catalog) {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().join("sys/kernel/tracing");
        for (name, field) in [("wake", "char comm[16]"), ("tick", "int prio")] {
            let folder = root.join("events/sched").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            let format = format!(
                "name: {name}\nID: 1\nformat:\n\tfield:{field};\toffset:8;\tsize:16;\tsigned:0;\n\nprint fmt: \"\"\n"
            );
            std::fs::write(folder.join("format"), format).unwrap();
        }
        std::fs::write(root.join("available_events"), "sched:wake\nsched:tick\n").unwrap();
        let catalog = Catalog::new(Host::new(tree.path()));
        (tree, catalog)
    }

    #[test]
    fn filters_stand_before_predicates_and_blocks() {
        let (_tree, catalog) = tree();
        for (text, filter, wanted) in [
            ("sched:tick", "prio == 1", "sched:tick /args.prio == 1/"),
            (
                "sched:tick { record(comm) }",
                "prio == 1",
                "sched:tick /args.prio == 1/ { record(comm) }",
            ),
            (
                "sched:tick /(pid == 1 || pid == 2)/ { @ = count() }",
                "prio == 1",
                "sched:tick /(args.prio == 1) && ((pid == 1 || pid == 2))/ { @ = count() }",
            ),
            ("sched:*", "CPU == 1", "sched:* /cpu == 1/"),
            (
                "sched:*",
                "comm == 'sh'",
                "tracepoint:sched:wake /args.comm == \"sh\"/ tracepoint:sched:tick /comm == \"sh\"/",
            ),
            (
                "kprobe:vfs_read,sched:tick",
                "CPU == 1",
                "kprobe:vfs_read,sched:tick /cpu == 1/",
            ),
        ] {
            assert_eq!(filtered(text, filter, &catalog).unwrap(), wanted);
        }
        assert!(filtered("sched:tick", "prio ==", &catalog).is_err());
    }
}
