//! Latencies: the time from one event to another that belongs to it, which is of the same thread or has the same value of a key.

use crate::background::Background;
use crate::distribution::{Distribution, FIGURES};
use crate::error::{Error, Result};
use crate::keys::Keys;
use crate::open::Open;
use crate::pairs::{Pair, Pairs, Side};
use crate::recent::Recent;
use crate::sort::{self, Row, Sort};
use foldhash::fast::RandomState;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use serde_json::Value as Json;
use std::collections::HashMap;

/// Latencies under construction. Memory goes with the number of rows and of begins whose end has not come.
#[derive(Clone, Debug)]
pub struct Latencies {
    pairs: Vec<Paired>,
    /// By the number of an event: its pairs, and whether it is the begin.
    roles: Vec<Vec<(usize, bool)>>,
    /// Begins of pairs whose key is the thread, by pair and thread.
    of_threads: Open<Begun>,
    /// Begins of the others, by pair and key.
    of_keys: HashMap<Vec<u8>, Begun, RandomState>,
    table: Table,
    /// Rows of the table.
    recent: Recent,
    /// The key of the record at hand.
    text: Vec<u8>,
}

/// The rows, by pair and the values of keys that split.
#[derive(Clone, Debug)]
struct Table {
    by: Option<Keys>,
    rows: Vec<Latency>,
    /// The places, by pair and by the values of `by` as bytes.
    places: HashMap<Vec<u8>, usize, RandomState>,
    text: Vec<u8>,
}

/// A pair with its keys.
#[derive(Clone, Debug)]
struct Paired {
    pair: Pair,
    /// At the begin and at the end; none where it is the thread.
    key: Option<(Keys, Keys)>,
    unpaired: (u64, u64),
}

/// A begin whose end has not come.
#[derive(Clone, Copy, Debug)]
struct Begun {
    time_ns: u64,
    row: usize,
}

/// The latencies of one pair of events, or of one group of them.
#[derive(Clone, Debug)]
pub struct Latency {
    /// The event that begins.
    pub begin: String,
    /// The event that ends.
    pub end: String,
    /// The values of the keys that split, as text.
    pub shown: Vec<String>,
    /// Keys as in JSON.
    pub keys: Vec<Json>,
    /// The latencies in ns.
    pub ns: Distribution,
}

/// Events of a pair that met no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpaired {
    /// The event that begins.
    pub begin: String,
    /// The event that ends.
    pub end: String,
    /// Begins without an end: it was not recorded, or another begin came first.
    pub begins: u64,
    /// Ends without a begin.
    pub ends: u64,
}

impl Latencies {
    /// Pairs events of a trace; `by` splits each pair by values at its begin.
    ///
    /// # Errors
    /// When a key means nothing at one side of a pair, or `by` at no begin.
    pub fn new(
        wanted: Vec<Pairs>,
        by: Option<&str>,
        events: &[EventClass],
        symbols: &Symbols,
    ) -> Result<Self> {
        let of = |ids: &[EventId]| -> Vec<&EventClass> {
            events.iter().filter(|event| ids.contains(&event.id)).collect()
        };
        let keys = |text: &str, side: &Side| Keys::new(text, of(&side.events), Symbols::default());
        let (mut pairs, mut roles) = (Vec::new(), Vec::<Vec<(usize, bool)>>::new());
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for wanted in wanted {
            for pair in wanted.pairs {
                let key = pair.key.as_ref();
                let key = key.map(|(begin, end)| Ok((keys(begin, &pair.begin)?, keys(end, &pair.end)?)));
                let index = pairs.len();
                // An event that is both ends what was, and begins anew.
                for (side, begins) in [(&pair.end, false), (&pair.begin, true)] {
                    for id in &side.events {
                        let id = usize::from(id.0);
                        roles.resize(roles.len().max(id + 1), Vec::new());
                        roles[id].push((index, begins));
                    }
                }
                begins.extend(pair.begin.events.iter().copied());
                ends.extend(pair.end.events.iter().copied());
                pairs.push(Paired {
                    pair,
                    key: key.transpose()?,
                    unpaired: (0, 0),
                });
            }
        }
        Ok(Self {
            pairs,
            roles,
            of_threads: Open::default(),
            of_keys: HashMap::default(),
            table: Table {
                by: by
                    .map(|by| split(by, &of(&begins), &of(&ends), symbols))
                    .transpose()?,
                rows: Vec::new(),
                places: HashMap::default(),
                text: Vec::new(),
            },
            recent: Recent::default(),
            text: Vec::new(),
        })
    }

    /// Warnings about the expressions of both sides.
    pub fn warnings(&self) -> Vec<Diagnostic> {
        let keys = self.pairs.iter().filter_map(|paired| paired.key.as_ref());
        let keys = keys.flat_map(|(begin, end)| [begin, end]).chain(&self.table.by);
        keys.flat_map(Keys::warnings).cloned().collect()
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record<'_>, background: &Background) {
        let id = usize::from(record.event.id.0);
        for role in 0..self.roles.get(id).map_or(0, Vec::len) {
            let (pair, begins) = self.roles[id][role];
            let paired = &mut self.pairs[pair];
            // Pairs by thread, the most common, are found by a number, without the key as bytes.
            let Some((begin, end)) = &paired.key else {
                let key = (pair as u32, thread(record));
                match begins {
                    true => {
                        let begun =
                            self.table
                                .begins(&mut self.recent, pair, &paired.pair, record, background);
                        paired.unpaired.0 += u64::from(self.of_threads.insert(key, begun));
                    }
                    false => self.table.ends(self.of_threads.remove(key), paired, record),
                }
                continue;
            };
            self.text.clear();
            self.text.extend_from_slice(&(pair as u32).to_le_bytes());
            let keys = if begins { begin } else { end };
            if !keys.group_key(record, background, &mut self.text) {
                continue;
            }
            match begins {
                true => {
                    let begun = self
                        .table
                        .begins(&mut self.recent, pair, &paired.pair, record, background);
                    match self.of_keys.get_mut(&self.text) {
                        Some(before) => {
                            *before = begun;
                            paired.unpaired.0 += 1;
                        }
                        None => {
                            self.of_keys.insert(self.text.clone(), begun);
                        }
                    }
                }
                false => self.table.ends(self.of_keys.remove(&self.text), paired, record),
            }
        }
    }

    /// Names of the keys that split.
    pub fn names(&self) -> Vec<String> {
        self.table
            .by
            .as_ref()
            .map(|by| by.names().to_vec())
            .unwrap_or_default()
    }

    /// The answer: rows in an order, those of the longest total time first where none is asked for, and what was left without a partner.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn finish(mut self, order: Option<&Sort>) -> Result<(Vec<Latency>, Vec<Unpaired>)> {
        let pair_of = |key: &Vec<u8>| key.first_chunk().map_or(0, |pair| u32::from_le_bytes(*pair));
        let of_keys = self.of_keys.keys().map(pair_of);
        for pair in of_keys.chain(self.of_threads.keys().map(|(pair, _)| pair)) {
            self.pairs[pair as usize].unpaired.0 += 1;
        }
        let names = self.names();
        let mut table: Vec<Latency> = self
            .table
            .rows
            .into_iter()
            .filter(|row| row.ns.count() > 0)
            .collect();
        let figures = FIGURES.map(|(name, _)| name);
        sort::sort(&mut table, order, &names, &figures, "sum")?;
        let unpaired = self.pairs.into_iter().map(|paired| Unpaired {
            begin: paired.pair.begin.name,
            end: paired.pair.end.name,
            begins: paired.unpaired.0,
            ends: paired.unpaired.1,
        });
        let unpaired = unpaired.filter(|unpaired| unpaired.begins + unpaired.ends > 0);
        Ok((table, unpaired.collect()))
    }
}

impl Table {
    /// The begin of a latency, with its row.
    fn begins(
        &mut self,
        recent: &mut Recent,
        pair: usize,
        events: &Pair,
        record: &Record<'_>,
        background: &Background,
    ) -> Begun {
        let of_thread = self.by.as_ref().is_none_or(|by| by.are_thread_constant(record));
        let row = match of_thread {
            true => recent.place(pair as u32, record, background, || {
                self.row(pair, events, record, background)
            }),
            false => self.row(pair, events, record, background),
        };
        Begun {
            time_ns: record.time_ns,
            row,
        }
    }

    /// The end of what began, if it did.
    fn ends(&mut self, begun: Option<Begun>, paired: &mut Paired, record: &Record<'_>) {
        match begun {
            Some(begun) => {
                let ns = record.time_ns.saturating_sub(begun.time_ns);
                self.rows[begun.row].ns.add(i64::try_from(ns).unwrap_or(i64::MAX));
            }
            None => paired.unpaired.1 += 1,
        }
    }

    /// The row of a begin.
    fn row(&mut self, pair: usize, events: &Pair, record: &Record<'_>, background: &Background) -> usize {
        self.text.clear();
        self.text.extend_from_slice(&(pair as u32).to_le_bytes());
        let by = self.by.as_ref();
        let has_keys = by.is_some_and(|by| by.group_key(record, background, &mut self.text));
        if let Some(row) = self.places.get(&self.text) {
            return *row;
        }
        let (shown, keys) = match by {
            Some(by) if has_keys => (by.shown(record, background), by.json(record, background)),
            _ => {
                let none = by.map_or(0, |by| by.names().len());
                (vec![String::new(); none], vec![Json::Null; none])
            }
        };
        self.rows.push(Latency {
            begin: events.begin.name.clone(),
            end: events.end.name.clone(),
            shown,
            keys,
            ns: Distribution::default(),
        });
        self.places.insert(self.text.clone(), self.rows.len() - 1);
        self.rows.len() - 1
    }
}

/// The thread of a record. The idle tasks all have the number 0, one for each CPU.
fn thread(record: &Record<'_>) -> u64 {
    match record.tid {
        0 => u64::from(record.cpu) << 32,
        tid => tid.into(),
    }
}

impl Row for Latency {
    fn keys(&self) -> &[Json] {
        &self.keys
    }

    fn figure(&self, name: &str) -> Option<i128> {
        self.ns.figure(name)
    }
}

/// The keys that split pairs, which are read at their begins.
fn split(by: &str, begins: &[&EventClass], ends: &[&EventClass], symbols: &Symbols) -> Result<Keys> {
    Keys::new(by, begins.iter().copied(), symbols.clone()).map_err(|error| {
        let all = begins.iter().chain(ends).copied();
        let at_ends = Keys::new(by, all, Symbols::default()).is_ok();
        match error {
            Error::Expression { text, mut found } if at_ends => {
                if let Some(first) = found.first_mut() {
                    let mut names: Vec<&str> = begins.iter().map(|event| event.name.as_str()).collect();
                    names.dedup();
                    first.message = format!("`{text}` means nothing where these pairs begin");
                    let begin = names.join(", ");
                    first.hints.insert(
                        0,
                        format!("--by is read at the begin, {begin}, and this is of the end"),
                    );
                }
                Error::Expression { text, found }
            }
            error => error,
        }
    })
}
