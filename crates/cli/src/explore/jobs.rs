//! Background passes of the view: each question has a thread of its own, which sends its answer.

use super::answer::{Answer, Question, Source};
use super::pass::Progress;
use super::scope::Scope;
use crate::exit::{Exit, Failure};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Outcome of a question; none where it was cancelled.
pub(crate) type Outcome = Result<Option<Answer>, Failure>;

/// Questions that are being answered.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// The recording.
    pub(crate) source: Source,
    sender: Sender<(u64, Outcome)>,
    receiver: Receiver<(u64, Outcome)>,
    /// The number of the last question.
    last: u64,
    /// Whether questions are answered at once, without threads of their own.
    at_once: bool,
}

/// A question that is being answered.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The job's number, which its answer has, too.
    pub(crate) number: u64,
    /// Progress of the job.
    pub(crate) progress: Arc<Progress>,
}

impl Jobs {
    /// Jobs of a recording, none yet.
    pub(crate) fn new(source: Source) -> Self {
        let (sender, receiver) = channel();
        Self {
            source,
            sender,
            receiver,
            last: 0,
            at_once: false,
        }
    }

    /// Jobs that are done when they are asked for.
    #[cfg(test)]
    pub(crate) fn at_once(self) -> Self {
        Self {
            at_once: true,
            ..self
        }
    }

    /// Asks a question about a scope.
    pub(crate) fn ask(&mut self, scope: Scope, question: Question) -> Job {
        self.last += 1;
        let job = Job {
            number: self.last,
            progress: Arc::default(),
        };
        let source = self.source.clone();
        let (number, progress) = (job.number, Arc::clone(&job.progress));
        let answers = self.sender.clone();
        // The receiver is gone only when the view has quit.
        let work = move || _ = answers.send((number, source.answer(&scope, question, &progress)));
        if self.at_once {
            work();
        } else if let Err(error) = std::thread::Builder::new().spawn(work) {
            let failure = Failure::new(Exit::Failed, format!("cannot start a thread: {error}"));
            _ = self.sender.send((number, Err(failure)));
        }
        job
    }

    /// The answers that have come, by the numbers of their questions.
    pub(crate) fn answers(&self) -> Vec<(u64, Outcome)> {
        self.receiver.try_iter().collect()
    }
}
