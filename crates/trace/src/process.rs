//! Names of threads, as the recorder or the records themselves tell them; no look at /proc happens here.

use crate::error::{Error, Result};
use crate::event::EventClass;
use crate::layout::FieldType;
use crate::record::Record;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Thread number → name (`comm`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    names: HashMap<u32, String, RandomState>,
}

impl Processes {
    /// Its file within a trace's side folder: one line `TID COMM` each.
    pub const FILE: &'static str = "processes";

    /// Gives a thread a name.
    pub fn insert(&mut self, tid: u32, name: impl Into<String>) {
        self.names.insert(tid, name.into());
    }

    /// Takes the names that another knows: they count before those known so far.
    pub fn extend(&mut self, newer: Self) {
        self.names.extend(newer.names);
    }

    /// The name of a thread: its own, or its process's, or `<idle>` for 0.
    pub fn name(&self, tid: u32, pid: u32) -> Option<&str> {
        match self.names.get(&tid).or_else(|| self.names.get(&pid)) {
            _ if tid == 0 => Some("<idle>"),
            found => found.map(String::as_str),
        }
    }

    /// How many names it knows.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The text of its file, by rising number.
    pub fn to_text(&self) -> String {
        let mut all: Vec<_> = self.names.iter().collect();
        all.sort();
        let line = |(tid, name): (&u32, &String)| format!("{tid} {}\n", name.replace(['\n', '\r'], "?"));
        all.into_iter().map(line).collect()
    }

    /// Reads what `to_text` wrote.
    pub fn parse(text: &str) -> Result<Self> {
        let mut names = HashMap::default();
        for line in text.lines() {
            let pair = line
                .split_once(' ')
                .and_then(|(tid, name)| Some((tid.parse().ok()?, name)));
            let Some((tid, name)) = pair else {
                return Err(Error::Side {
                    what: "the trace's names of processes".into(),
                    why: format!("{line:?} is not a number and a name"),
                });
            };
            names.insert(tid, name.to_owned());
        }
        Ok(Self { names })
    }

    fn learn(&mut self, tid: u32, name: &[u8]) {
        if name.is_empty() || tid == 0 {
            return;
        }
        match self.names.get_mut(&tid) {
            Some(known) if known.as_bytes() == name => {}
            Some(known) => *known = String::from_utf8_lossy(name).into_owned(),
            None => {
                self.names.insert(tid, String::from_utf8_lossy(name).into_owned());
            }
        }
    }
}

/// Learns names of threads from records as they pass: pairs of fields such as `prev_pid`, `prev_comm`, or a lone `comm`.
#[derive(Clone, Debug, Default)]
pub struct Learner {
    /// By event number: the event's name, and its roles.
    roles: Vec<Option<(String, Roles)>>,
}

#[derive(Clone, Debug, Default)]
struct Roles {
    /// Indices of fields: a thread's number and its name.
    pairs: Vec<(usize, usize)>,
    /// Index of the field with the name of the thread that the record is about.
    own: Option<usize>,
    /// Index of the field with the path of the program that the thread runs from now on.
    file: Option<usize>,
}

/// Bytes of a thread's name, its NUL included (`TASK_COMM_LEN`).
const COMM: usize = 16;

impl Learner {
    /// Takes what `record` tells into `processes`.
    pub fn learn(&mut self, record: &Record<'_>, processes: &mut Processes) {
        let id = usize::from(record.event.id.0);
        if self.roles.len() <= id {
            self.roles.resize(id + 1, None);
        }
        let fresh = !matches!(&self.roles[id], Some((name, _)) if *name == record.event.name);
        if fresh {
            self.roles[id] = Some((record.event.name.clone(), Roles::of(record.event)));
        }
        let Some((_, roles)) = &self.roles[id] else { return };
        let fields = record.event.layout.fields();
        let text = |index: usize| match record.value(&fields[index]) {
            crate::value::Value::Text(name) => name,
            _ => &[],
        };
        for (tid, name) in &roles.pairs {
            if let Some(tid) = record.value(&fields[*tid]).as_u64() {
                processes.learn(tid as u32, text(*name));
            }
        }
        if let Some(own) = roles.own {
            processes.learn(record.tid, text(own));
        }
        if let Some(file) = roles.file {
            // As `begin_new_exec` in fs/exec.c: the last part of the path, which `strscpy` cuts to the name's room.
            let name = text(file).rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if !name.is_empty() {
                processes.learn(record.tid, &name[..name.len().min(COMM - 1)]);
            }
        }
    }
}

impl Roles {
    fn of(event: &EventClass) -> Self {
        let fields = event.layout.fields();
        let find = |name: &str| fields.iter().position(|field| field.name == name);
        let is_text = |index: usize| {
            matches!(
                fields[index].ty,
                FieldType::Text { .. } | FieldType::String { .. }
            )
        };
        let mut roles = Self::default();
        for (pid, comm) in [
            ("pid", "comm"),
            ("prev_pid", "prev_comm"),
            ("next_pid", "next_comm"),
            ("parent_pid", "parent_comm"),
            ("child_pid", "child_comm"),
            ("pid", "newcomm"),
        ] {
            let Some(comm) = find(comm).filter(|index| is_text(*index)) else {
                continue;
            };
            match find(pid) {
                Some(pid) => roles.pairs.push((pid, comm)),
                None if pid == "pid" => roles.own = Some(comm),
                None => {}
            }
        }
        if event.name == "sched:sched_process_exec" {
            roles.file = find("filename").filter(|index| is_text(*index));
        }
        roles
    }
}
