//! Entries and returns put together, by thread.

use super::call::{Call, End};
use super::moment::Moment;
use super::pieces::Pieces;
use super::signature::Signature;
use std::collections::HashMap;

/// Calls that never return.
const NEVER: &[&str] = &["exit", "exit_group"];

/// Calls that return twice.
const FORKS: &[&str] = &["fork", "vfork", "clone", "clone3"];

/// The calls that have begun, by thread.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    begun: HashMap<u32, Call>,
}

impl Pairing {
    /// Takes a call whose entry was not seen, and in which its thread is: its return has its arguments.
    pub(crate) fn resume(&mut self, call: Call) {
        self.begun.insert(call.tid, call);
    }

    /// Takes a moment of the thread `tid` of `pid` and gives each call that is over with it.
    pub fn add(&mut self, thread: (u32, u32), time_ns: u64, moment: Moment, done: &mut dyn FnMut(Call)) {
        self.add_wanted(thread, (time_ns, true), moment, done);
    }

    /// Adds a moment that a filter may have left out: a call counts if its entry or its return was chosen.
    pub(crate) fn add_wanted(
        &mut self,
        (pid, tid): (u32, u32),
        (time_ns, wanted): (u64, bool),
        moment: Moment,
        done: &mut dyn FnMut(Call),
    ) {
        match moment {
            Moment::Entry {
                signature,
                values,
                pieces,
                stacks,
            } => {
                let call = Call {
                    pid,
                    tid,
                    signature,
                    begun_ns: Some(time_ns),
                    ended_ns: None,
                    values,
                    before: pieces,
                    after: Pieces::default(),
                    stacks,
                    end: End::Never,
                    wanted,
                    netlink: None,
                };
                let before = match NEVER.contains(&call.signature.own_name()) {
                    true => {
                        let before = self.begun.remove(&tid);
                        left(before, End::Unseen, done);
                        done(call);
                        None
                    }
                    false => self.begun.insert(tid, call),
                };
                left(before, End::Unseen, done);
            }
            Moment::Return {
                signature,
                value,
                pieces,
            } => {
                let begun = self.begun.remove(&tid);
                let (begun, other) = match begun {
                    Some(call) if is_return_of(&signature, &call) => (Some(call), None),
                    other => (None, other),
                };
                left(other, End::Unseen, done);
                // The child's return: it never made the call.
                if begun.is_none() && value == 0 && FORKS.contains(&signature.own_name()) {
                    return;
                }
                let call = begun.unwrap_or_else(|| Call {
                    pid,
                    tid,
                    signature,
                    begun_ns: None,
                    ended_ns: None,
                    values: Vec::new(),
                    before: Pieces::default(),
                    after: Pieces::default(),
                    stacks: Vec::new(),
                    end: End::Unseen,
                    wanted,
                    netlink: None,
                });
                done(Call {
                    ended_ns: Some(time_ns),
                    after: pieces,
                    end: End::Returned(value),
                    wanted: wanted || call.wanted,
                    ..call
                });
            }
        }
    }

    /// Gives the call that a thread was in when it ended.
    pub fn end(&mut self, tid: u32, done: &mut dyn FnMut(Call)) {
        left(self.begun.remove(&tid), End::Unfinished, done);
    }

    /// Gives the calls that have not returned, by the time at which they began.
    pub fn finish(&mut self, done: &mut dyn FnMut(Call)) {
        let mut calls: Vec<Call> = self.begun.drain().map(|(_, call)| call).collect();
        calls.sort_by_key(|call| (call.begun_ns, call.tid));
        for call in calls {
            left(Some(call), End::Unfinished, done);
        }
    }
}

/// Whether a return is that of a call: of the same, or of one that leaves another number behind. The kernel has none for what goes on behind a handler of
/// signals, and a program of another interface has the number that this has.
fn is_return_of(signature: &Signature, call: &Call) -> bool {
    let is_exec = |signature: &Signature| matches!(signature.own_name(), "execve" | "execveat");
    signature.is(&call.signature)
        || call.signature.goes_on_elsewhere()
        || is_exec(signature) && is_exec(&call.signature)
}

/// Gives a call whose return did not come. One that goes on elsewhere has none that anybody waits for; of one whose entry did not come either there is nothing.
fn left(call: Option<Call>, end: End, done: &mut dyn FnMut(Call)) {
    if let Some(call) = call.filter(|call| call.begun_ns.is_some()) {
        let end = match call.signature.goes_on_elsewhere() {
            true => End::Never,
            false => end,
        };
        done(Call { end, ..call });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn entry(call: &str) -> Moment {
        Moment::Entry {
            signature: Arc::new(Signature::new(call, [])),
            values: Vec::new(),
            pieces: Pieces::default(),
            stacks: Vec::new(),
        }
    }

    fn back(call: &str, value: i64) -> Moment {
        Moment::Return {
            signature: Arc::new(Signature::new(call, [])),
            value,
            pieces: Pieces::default(),
        }
    }

    #[test]
    fn each_call_ends_once() {
        let mut pairing = Pairing::default();
        let mut done = Vec::new();
        let moments = [
            (1, back("read", 5)),
            (1, entry("read")),
            (2, entry("write")),
            (1, back("read", 3)),
            (1, entry("futex")),
            (1, entry("exit_group")),
            (3, entry("poll")),
            (2, back("close", 0)),
        ];
        for (time, (tid, moment)) in (0..).zip(moments) {
            pairing.add((tid, tid), time, moment, &mut |call| done.push(call));
        }
        pairing.finish(&mut |call| done.push(call));
        let ends: Vec<_> = done
            .iter()
            .map(|call| (call.tid, call.signature.own_name(), call.end, call.duration()))
            .collect();
        assert_eq!(
            ends,
            [
                (1, "read", End::Returned(5), None),
                (1, "read", End::Returned(3), Some(2)),
                (1, "futex", End::Unseen, None),
                (1, "exit_group", End::Never, None),
                (2, "write", End::Unseen, None),
                (2, "close", End::Returned(0), None),
                (3, "poll", End::Unfinished, None),
            ]
        );
    }

    #[test]
    fn a_call_that_began_before_has_its_arguments_when_it_returns_and_is_nothing_else() {
        let mut pairing = Pairing::default();
        let mut done = Vec::new();
        let in_progress = |tid| Call {
            pid: tid,
            tid,
            signature: Arc::new(Signature::new("read", [])),
            begun_ns: None,
            ended_ns: Some(1),
            values: vec![3],
            before: Pieces::default(),
            after: Pieces::default(),
            stacks: Vec::new(),
            end: End::InProgress,
            wanted: true,
            netlink: None,
        };
        (1..5).for_each(|tid| pairing.resume(in_progress(tid)));
        for (tid, moment) in [(1, back("read", 7)), (2, entry("write")), (2, back("write", 1))] {
            pairing.add((tid, tid), 9, moment, &mut |call| done.push(call));
        }
        pairing.end(3, &mut |call| done.push(call));
        pairing.finish(&mut |call| done.push(call));
        let ends: Vec<_> = done
            .iter()
            .map(|call| {
                (
                    call.tid,
                    call.signature.own_name(),
                    call.end,
                    call.values.len(),
                    call.ended_ns,
                )
            })
            .collect();
        assert_eq!(
            ends,
            [
                (1, "read", End::Returned(7), 1, Some(9)),
                (2, "write", End::Returned(1), 0, Some(9)),
            ]
        );
        assert_eq!(done[0].duration(), None);
    }

    #[test]
    fn some_returns_have_other_numbers_than_their_calls() {
        use super::super::signature::{Abi, Signatures};
        let mut pairing = Pairing::default();
        let mut done = Vec::new();
        let (mut signatures, exec) = (
            Signatures::default(),
            Signature::of_abi(Abi::Compat, "execve", []),
        );
        let moments = [
            entry("rt_sigreturn"),
            Moment::Return {
                signature: signatures.get(Abi::Native, u64::MAX),
                value: 5,
                pieces: Pieces::default(),
            },
            entry("execve"),
            Moment::Return {
                signature: Arc::new(exec),
                value: 0,
                pieces: Pieces::default(),
            },
            // Its return was not asked for.
            entry("rt_sigreturn"),
            entry("pause"),
        ];
        for (time, moment) in (0..).zip(moments) {
            pairing.add((1, 1), time, moment, &mut |call| done.push(call));
        }
        // As little of those that are the last of their threads, or of the recording.
        for thread in [2, 3] {
            pairing.add((thread, thread), 9, entry("rt_sigreturn"), &mut |call| {
                done.push(call)
            });
        }
        pairing.end(2, &mut |call| done.push(call));
        pairing.end(1, &mut |call| done.push(call));
        pairing.finish(&mut |call| done.push(call));
        let ends: Vec<_> = done
            .iter()
            .map(|call| (call.signature.call.as_str(), call.end))
            .collect();
        assert_eq!(
            ends,
            [
                ("rt_sigreturn", End::Returned(5)),
                ("execve", End::Returned(0)),
                ("rt_sigreturn", End::Never),
                ("rt_sigreturn", End::Never),
                ("pause", End::Unfinished),
                ("rt_sigreturn", End::Never),
            ]
        );
    }
}
