//! Sources of readings: programs of our own that count, or persistent sessions.

use super::reading::{BufferReading, Hits, MapReading, Process, Reading, ReadingParts};
use crate::exit::{Exit, Failure};
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::language::builtin_names;
use kestrel::plan::Options;
use kestrel::session::Uncounted;
use kestrel::session::glance::{Glance, GlanceResult};
use kestrel::session::status::age;
use kestrel::session::store::Store;
use kestrel::stat::{Cause, Causes};
use kestrel::tail::Watch;
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::aggregate::{entries, json, text};
use kestrel_trace::print::{counted, shown_bytes, were};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A source of repeated readings.
pub(super) trait Source {
    /// Reads all that was counted so far.
    fn read(&mut self, wanted: ReadingParts) -> Result<Reading, Failure>;

    /// Title of the view, in a few words.
    fn title(&self) -> String;

    /// Fills a map with a histogram of an expression at an event from now on, of one process if `pid` is given; returns the map's title in later readings.
    fn add_histogram(&mut self, event: &str, pid: Option<u32>, expression: &str) -> Result<String, Failure>;

    /// Takes down what was made for it.
    fn end(&mut self) {}

    /// Whether there is nothing left to look at.
    fn has_ended(&self) -> bool {
        false
    }
}

/// Programs of our own: of events that were named, or of the usual ones.
pub(super) struct Own<'c> {
    causes: Causes,
    /// Histograms that were asked for while it ran, by the titles of their maps.
    histograms: Vec<(String, Causes)>,
    catalog: &'c Catalog,
    options: Options,
    include_self: bool,
    title: String,
    begun: Instant,
    missed: Vec<(String, String, u64)>,
    missed_again: Instant,
    /// Why not all of these are known, where that matters.
    uncounted: Option<String>,
}

/// Factor between the pause before the kernel is asked again for missed hits and the time of the last answer, at least.
const MISSED_SHARE: u32 = 50;

impl<'c> Own<'c> {
    /// Attaches the programs of some texts.
    pub(super) fn start(
        texts: &[String],
        title: String,
        include_self: bool,
        options: Options,
        catalog: &'c Catalog,
    ) -> Result<Self, Failure> {
        let command = crate::arguments::command_line();
        let causes = Causes::start(texts, include_self, &options, catalog, &command)?;
        for (text, warning) in causes.warnings() {
            eprintln!(
                "{}",
                crate::style::diagnostics(std::slice::from_ref(warning), text)
            );
        }
        for left_out in causes.session().skipped() {
            eprintln!("not counted: {}: {}", left_out.event, left_out.why);
        }
        causes.begin();
        let now = Instant::now();
        Ok(Self {
            causes,
            histograms: Vec::new(),
            catalog,
            options,
            include_self,
            title,
            begun: now,
            missed: Vec::new(),
            missed_again: now,
            uncounted: None,
        })
    }

    fn ask_missed(&mut self, came: &[Cause]) -> Result<(), Failure> {
        let begun = Instant::now();
        if begun >= self.missed_again {
            let missed = self.causes.missed()?;
            let known = missed
                .into_iter()
                .filter_map(|missed| Some((String::new(), missed.event, missed.count.ok()?)));
            self.missed = known.filter(|(.., count)| *count > 0).collect();
            let hits = self.missed.iter().map(|(.., count)| count).sum();
            // The counts are all that it keeps.
            let uncounted = self.causes.session().uncounted()?.map(|uncounted| Uncounted {
                unseen: false,
                ..uncounted
            });
            let uncounted =
                uncounted.filter(|it| it.matters(hits, came.iter().map(|cause| (&cause.event, 0))));
            self.uncounted = uncounted.map(|uncounted| uncounted.to_string());
            self.missed_again = Instant::now() + begun.elapsed() * MISSED_SHARE;
        }
        Ok(())
    }
}

impl Source for Own<'_> {
    fn read(&mut self, wanted: ReadingParts) -> Result<Reading, Failure> {
        let caused = self.causes.read(wanted.cpus)?;
        let at = self.begun.elapsed();
        self.ask_missed(&caused.causes)?;
        let ended = caused.ended.into_iter().map(|ended| Hits {
            event: ended.event,
            cpu: ended.cpu,
            count: ended.hits,
            ..Hits::default()
        });
        let hits = caused.causes.into_iter().map(|cause| Hits {
            session: String::new(),
            event: cause.event,
            process: Some(Process {
                pid: cause.pid,
                comm: cause.comm,
            }),
            cpu: cause.cpu,
            count: cause.hits,
            lost: 0,
        });
        let mut maps = maps("", &caused.maps, self.catalog.host());
        for (title, causes) in &mut self.histograms {
            let of = self::maps("", &causes.read(false)?.maps, self.catalog.host());
            maps.extend(of.into_iter().map(|map| MapReading {
                title: title.clone(),
                ..map
            }));
        }
        Ok(Reading {
            at,
            hits: hits.chain(ended).collect(),
            causes: None,
            knows: ReadingParts {
                processes: true,
                ..wanted
            },
            maps,
            buffers: Vec::new(),
            missed: self.missed.clone(),
            uncounted_hits: caused.uncounted_hits,
            notes: self.uncounted.clone().into_iter().collect(),
        })
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn add_histogram(&mut self, event: &str, pid: Option<u32>, expression: &str) -> Result<String, Failure> {
        let predicate = pid.map_or_else(String::new, |pid| format!(" /pid == {pid}/"));
        let start = |expression: &str| {
            let text = format!("{event}{predicate} {{ @ = hist({expression}) }}");
            let command = crate::arguments::command_line();
            Causes::start(&[text], self.include_self, &self.options, self.catalog, &command)
        };
        // A bare word that is no built-in is a field; where it is none, that is what is wrong with it.
        let is_word = expression
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let means_field = is_word && !builtin_names().any(|name| name == expression);
        let as_field = |error| {
            let result = start(&format!("args.{expression}"));
            result.map_err(|of_field| if means_field { of_field } else { error })
        };
        let causes = start(expression).or_else(as_field)?;
        causes.begin();
        let title = format!("{event}{predicate} {expression}");
        self.histograms.retain(|(known, _)| *known != title);
        self.histograms.push((title.clone(), causes));
        Ok(title)
    }

    fn end(&mut self) {
        let others = self.histograms.iter_mut().map(|(_, causes)| causes.detach());
        let apart = self.causes.detach() + others.sum::<usize>();
        if apart > 0 {
            remark!(
                "{} masked and being detached in the background: the kernel takes its time for each",
                counted(apart as u64, "hook")
            );
        }
    }
}

/// Persistent sessions.
pub(super) struct Sessions {
    host: Host,
    sessions: Vec<Looked>,
    begun: Instant,
    ended: Vec<String>,
}

/// A session that is looked at.
struct Looked {
    glance: Glance,
    /// The records, since it was first asked who causes events.
    watched: Option<Watched>,
}

/// Records that were read, by event, process and CPU.
struct Watched {
    watch: Watch,
    hits: BTreeMap<(String, u32, u32), u64>,
    /// Names of processes, by number.
    names: BTreeMap<u32, String>,
    overwritten: u64,
}

impl Sessions {
    /// Opens the sessions of these names.
    pub(super) fn open(store: &Store, names: &[String], host: &Host) -> Result<Self, Failure> {
        let open = |name: &String| -> Result<Looked, Failure> {
            Ok(Looked {
                glance: Glance::new(store.session(Some(name))?)?,
                watched: None,
            })
        };
        let sessions = names.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self {
            host: host.clone(),
            sessions,
            begun: Instant::now(),
            ended: Vec::new(),
        })
    }
}

impl Source for Sessions {
    fn read(&mut self, wanted: ReadingParts) -> Result<Reading, Failure> {
        let mut reading = Reading {
            knows: ReadingParts { cpus: true, ..wanted },
            causes: wanted.processes.then(Vec::new),
            ..Reading::default()
        };
        let mut left = Vec::new();
        for mut looked in std::mem::take(&mut self.sessions) {
            let Some(seen) = looked.glance.look()? else {
                self.ended.push(looked.glance.session().name().to_owned());
                continue;
            };
            if wanted.processes && looked.watched.is_none() {
                looked.watched = Some(Watched::begin(&self.host, looked.glance.session().name())?);
            }
            add(&mut reading, &seen, looked.glance.session().name(), &self.host);
            if let Some(watched) = &mut looked.watched {
                watched.add(&mut reading, &self.host)?;
            }
            left.push(looked);
        }
        self.sessions = left;
        reading.at = self.begun.elapsed();
        let ended = self.ended.iter();
        reading
            .notes
            .extend(ended.map(|name| format!("the session {name} has ended")));
        Ok(reading)
    }

    fn add_histogram(&mut self, event: &str, _: Option<u32>, expression: &str) -> Result<String, Failure> {
        let message = format!(
            "a session has the handlers of its tables: `kestrel top -e '{event} {{ @ = hist({expression}) }}'` adds one of its own"
        );
        Err(Failure::new(Exit::Usage, message))
    }

    fn title(&self) -> String {
        let name = |looked: &Looked| {
            let session = looked.glance.session();
            match session.active() {
                Some(table) => format!("{} (table {})", session.name(), table.name),
                None => format!("{} (masked)", session.name()),
            }
        };
        let names: Vec<String> = self.sessions.iter().map(name).collect();
        match names.as_slice() {
            [] => "no session is left".to_owned(),
            [only] => format!("session {only}"),
            several => format!("sessions {}", several.join(", ")),
        }
    }

    fn has_ended(&self) -> bool {
        self.sessions.is_empty()
    }
}

/// Adds the counters of a session to a reading.
fn add(reading: &mut Reading, seen: &GlanceResult, session: &str, host: &Host) {
    reading.hits.extend(seen.events.iter().map(|event| Hits {
        session: session.to_owned(),
        event: event.event.clone(),
        process: None,
        cpu: Some(event.cpu),
        count: event.recorded + event.lost,
        lost: event.lost,
    }));
    reading.maps.extend(maps(session, &seen.maps, host));
    let missed = seen.missed.iter();
    reading
        .missed
        .extend(missed.map(|(event, missed)| (session.to_owned(), event.clone(), *missed)));
    reading
        .buffers
        .extend(seen.buffers.iter().map(|buffer| BufferReading {
            session: session.to_owned(),
            name: buffer.name.clone(),
            mode: match buffer.frozen {
                true => "frozen".to_owned(),
                false => buffer.geometry.mode.name().to_owned(),
            },
            bytes_per_cpu: buffer.geometry.data().into(),
            fill: buffer.fill(),
            span: buffer.oldest().map(|oldest| age(oldest).as_secs_f64()),
            recorded: buffer.sum(|ring| ring.recorded),
            overwritten: buffer.sum(|ring| ring.overwritten),
            lost: buffer.sum(|ring| ring.lost),
        }));
}

impl Watched {
    fn begin(host: &Host, session: &str) -> Result<Self, Failure> {
        let store = crate::sessions::store(host)?;
        Ok(Self {
            watch: Watch::open(store, Some(session), &[], None)?,
            hits: BTreeMap::new(),
            names: BTreeMap::new(),
            overwritten: 0,
        })
    }

    /// Reads the records that have come, and adds up those of all time.
    fn add(&mut self, reading: &mut Reading, host: &Host) -> Result<(), Failure> {
        let own = std::process::id();
        let hits = &mut self.hits;
        let mut names: Vec<(u32, u32)> = Vec::new();
        let known = &self.names;
        loop {
            let came = self.watch.poll(&mut |record| {
                // Events of this command itself are left out.
                if record.pid == own {
                    return Ok(());
                }
                let key = (record.event.name.clone(), record.pid, record.cpu);
                *hits.entry(key).or_default() += 1;
                if !known.contains_key(&record.pid) {
                    names.push((record.pid, record.tid));
                }
                Ok(())
            })?;
            if came == 0 {
                break;
            }
        }
        names.sort_unstable();
        names.dedup_by_key(|(pid, _)| *pid);
        let kept = self.watch.thread_names()?;
        for (pid, tid) in names {
            let name = kestrel::kernel::procfs::comm_bytes(host, pid).ok();
            let name = name.or_else(|| kept.name(pid)).or_else(|| kept.name(tid));
            let name = shown_bytes(&name.unwrap_or_default()).into_owned();
            self.names.insert(pid, name);
        }
        self.overwritten += self.watch.take_unseen().packets;
        let session = self.watch.name();
        let causes = reading.causes.get_or_insert_default();
        causes.extend(self.hits.iter().map(|((event, pid, cpu), count)| Hits {
            session: session.to_owned(),
            event: event.clone(),
            process: Some(Process {
                pid: *pid,
                comm: self.names.get(pid).cloned().unwrap_or_default(),
            }),
            cpu: Some(*cpu),
            count: *count,
            lost: 0,
        }));
        reading.notes.push(format!(
            "processes of {session}: by its records since they were asked for"
        ));
        if self.overwritten > 0 {
            reading.notes.push(format!(
                "{} of {session} {} overwritten before they were read: its processes have more events than is shown",
                counted(self.overwritten, "packet"),
                were(self.overwritten)
            ));
        }
        Ok(())
    }
}

/// Readings of maps.
fn maps(session: &str, snapshots: &[Snapshot], host: &Host) -> Vec<MapReading> {
    let (symbols, _) = kestrel::session::maps::symbols(snapshots, host, None);
    let reading = |snapshot: &Snapshot| {
        let function = snapshot.ty.value.function().unwrap_or("=");
        MapReading {
            session: session.to_owned(),
            title: snapshot.ty.title(),
            function: function.to_owned(),
            only_grows: snapshot.ty.value.only_grows(),
            entries: entries(snapshot, &symbols),
            most: snapshot.ty.entries,
            lost: snapshot.lost,
            text: text(snapshot, &symbols),
            json: json(snapshot, &symbols),
        }
    };
    snapshots.iter().map(reading).collect()
}

/// The usual events, where nothing is named and no session runs.
pub(super) const USUAL: [&str; 2] = ["sched:*", "syscalls:sys_enter_*"];

/// The words of a command line as names of sessions or as events.
pub(super) fn split_sessions_and_events(words: &[String]) -> Result<(Vec<String>, Vec<String>), Failure> {
    let (events, sessions): (Vec<String>, Vec<String>) =
        words.iter().cloned().partition(|word| word.contains([':', '@']));
    match (sessions.first(), events.first()) {
        (Some(session), Some(event)) => {
            let message = format!(
                "`{event}` is an event and `{session}` a session: one view shows the one or the other"
            );
            Err(Failure::new(Exit::Usage, message)
                .hint("`kestrel top EVENT …` counts events, `kestrel top SESSION …` looks at sessions"))
        }
        _ => Ok((sessions, events)),
    }
}

/// The longest interval: longer ones are perf's milliseconds.
const LONGEST: Duration = Duration::from_secs(600);

/// Reads the value of `--interval`.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let interval = crate::arguments::duration(text)?;
    match interval {
        interval if interval > LONGEST => Err(format!(
            "these are seconds: {text}ms is as many milliseconds; at most 600 s"
        )),
        interval if interval < Duration::from_millis(10) => {
            Err("at least 10ms lie between two readings".to_owned())
        }
        interval => Ok(interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_events_or_sessions() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (sessions, events) = split_sessions_and_events(&words(&["sched:*", "irq:*"])).unwrap_or_default();
        assert_eq!((sessions.len(), events.len()), (0, 2));
        let (sessions, events) = split_sessions_and_events(&words(&["flight"])).unwrap_or_default();
        assert_eq!((sessions.len(), events.len()), (1, 0));
        assert!(split_sessions_and_events(&words(&["flight", "sched:*"])).is_err());
    }

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert!(interval("1000").is_err_and(|why| why.contains("1000ms")));
        assert!(interval("0").is_err() && interval("x").is_err());
    }
}
