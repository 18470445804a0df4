//! A progress bar on stderr for long operations, shown on a terminal only.

use crate::screen::is_quiet;
use crate::style::is_dumb;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The delay before a bar is shown: shorter operations have none.
const PATIENCE: Duration = Duration::from_millis(400);

/// A callback that is given the work done and the total; `None` if stderr is no terminal, or `--quiet` asks for less.
pub(crate) fn bar(what: &'static str) -> Option<Box<dyn FnMut(u64, u64)>> {
    if is_quiet() || is_dumb() || !std::io::stderr().is_terminal() {
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

/// A bar that is cleared from the screen when it is dropped.
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
