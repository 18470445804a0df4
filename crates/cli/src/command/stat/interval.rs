//! Differences of two readings: every hit into exactly one interval, so that intervals add up to the total.

use kestrel::stat::{Amount, Count, Part, Reading};
use std::collections::HashMap;

/// The counts of `now` without those of `before`; parts of which nothing came are left out where others of their event may come and go.
pub(super) fn since(now: &[Count], before: &[Count]) -> Vec<Count> {
    let before: HashMap<(usize, &Part), Amount> = before
        .iter()
        .map(|count| ((count.event, &count.part), count.amount))
        .collect();
    let new = now.iter().map(|count| Count {
        amount: less(count.amount, before.get(&(count.event, &count.part)).copied()),
        ..count.clone()
    });
    new.filter(|count| !is_idle(count)).collect()
}

fn less(now: Amount, before: Option<Amount>) -> Amount {
    match (now, before) {
        (Amount::Counted(now), Some(Amount::Counted(before))) => Amount::Counted(Reading {
            value: now.value.saturating_sub(before.value),
            enabled: now.enabled.saturating_sub(before.enabled),
            running: now.running.saturating_sub(before.running),
        }),
        (now, _) => now,
    }
}

/// Whether it is a row of a value that did not come.
fn is_idle(count: &Count) -> bool {
    let comes_and_goes = matches!(count.part, Part::By(_));
    comes_and_goes && matches!(count.amount, Amount::Counted(reading) if reading.value == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(event: usize, part: Part, value: u64) -> Count {
        Count {
            event,
            part,
            amount: Amount::Counted(Reading {
                value,
                enabled: value,
                running: value,
            }),
        }
    }

    #[test]
    fn intervals_add_up_to_the_total() {
        let by = |text: &str| Part::By(vec![text.to_owned()]);
        let first = [count(0, Part::All, 3), count(1, by("a"), 2)];
        let second = [
            count(0, Part::All, 10),
            count(1, by("a"), 2),
            count(1, by("b"), 1),
        ];
        assert_eq!(since(&first, &[]), first);
        assert_eq!(
            since(&second, &first),
            [count(0, Part::All, 7), count(1, by("b"), 1)]
        );
    }

    #[test]
    fn an_unsupported_count_is_unsupported_in_every_interval() {
        let unsupported = Count {
            event: 0,
            part: Part::All,
            amount: Amount::NotSupported,
        };
        let unsupported = [unsupported];
        assert_eq!(since(&unsupported, &unsupported), unsupported);
    }
}
