//! A bar on the terminal's stderr while something long is under way; nowhere else, and not for what is soon done.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// What is done sooner than this gets no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// A function that takes how much of how much is done; `None` where nobody would see a bar.
pub(crate) fn bar(what: &'static str) -> Option<Box<dyn FnMut(u64, u64)>> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let begun = Instant::now();
    let mut bar = Bar(None);
    Some(Box::new(move |done, total| {
        if begun.elapsed() < PATIENCE {
            return;
        }
        bar.0.get_or_insert_with(|| drawn(what, total)).set_position(done);
    }))
}

/// Takes itself off the screen.
struct Bar(Option<ProgressBar>);

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

fn drawn(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %  {eta} left") {
        bar.set_style(style);
    }
    bar.with_message(what)
}
