//! Tests of the model of `kestrel top`: what it shows after keys and readings.

use super::*;
use crate::command::top::reading::{Hits, MapReading};
use crate::terminal::testing::press;
use std::time::Duration;

fn reading(seconds: u64, of: &[(&str, u32, &str, u64)]) -> Reading {
    Reading {
        at: Duration::from_secs(seconds),
        hits: of
            .iter()
            .map(|(event, pid, comm, count)| Hits::of(event, *pid, comm, pid % 2, *count))
            .collect(),
        knows: ReadingParts {
            cpus: true,
            processes: true,
        },
        ..Reading::default()
    }
}

fn two() -> Model {
    let mut model = Model::default();
    model.take(reading(1, &[("a", 1, "init", 10), ("b", 2, "sh", 50)]));
    model.take(reading(
        3,
        &[("a", 1, "init", 30), ("a", 3, "sh", 5), ("b", 2, "sh", 51)],
    ));
    model
}

fn shown(model: &mut Model) -> Vec<Vec<String>> {
    let rows = model.table().shown();
    rows.map(|row| row.cells.iter().map(|cell| cell.shown().to_owned()).collect())
        .collect()
}

fn go(model: &mut Model, codes: &[KeyCode]) {
    for code in codes {
        assert!(model.key(press(*code)), "{code:?}");
    }
}

#[test]
fn rates_are_of_the_last_interval_and_totals_of_all_time() {
    let mut model = two();
    assert_eq!(
        shown(&mut model),
        [["a", "13", "35", "0", "0"], ["b", "0.5", "51", "0", "0"]]
    );
    assert_eq!(model.total_rate(), Some(13.0));
    let mut first = Model::default();
    first.take(reading(1, &[("a", 1, "init", 10)]));
    assert_eq!(shown(&mut first), [["a", "-", "10", "0", "0"]]);
    assert_eq!(first.total_rate(), None);
}

#[test]
fn drilling_down_goes_from_an_event_to_its_processes_and_places_and_back() {
    let mut model = two();
    go(&mut model, &[KeyCode::Enter]);
    assert_eq!(model.path(), "events › a by processes");
    assert_eq!(
        shown(&mut model),
        [["init", "1", "10", "30"], ["sh", "3", "2.5", "5"]]
    );
    assert_eq!((model.wanted().processes, model.wanted().cpus), (true, false));
    go(&mut model, &[KeyCode::Down, KeyCode::Enter]);
    assert_eq!(model.path(), "events › a, process 3 by CPUs");
    assert!(model.wanted().cpus);
    assert_eq!(shown(&mut model), [["1", "2.5", "5", "0"]]);
    go(&mut model, &[KeyCode::Enter]);
    assert_eq!(model.path(), "events › a, process 3 by CPUs", "no deeper");
    go(&mut model, &[KeyCode::Esc]);
    assert_eq!(model.table().chosen().unwrap().key, "3", "where one came from");
    go(&mut model, &[KeyCode::Char('c')]);
    assert_eq!(model.path(), "events › a by CPUs");
    go(&mut model, &[KeyCode::Esc, KeyCode::Esc]);
    assert_eq!(model.path(), "events");
}

#[test]
fn a_newly_shown_column_has_no_rate_before_its_second_reading() {
    let mut model = two();
    go(&mut model, &[KeyCode::Char('c')]);
    assert_eq!(shown(&mut model)[0][1], "13");
    let mut now = reading(5, &[("a", 1, "init", 40)]);
    now.knows.cpus = false;
    model.take(now.clone());
    now.at = Duration::from_secs(7);
    now.knows.cpus = true;
    model.take(now);
    assert_eq!(shown(&mut model), [["1", "-", "40", "0"]]);
}

#[test]
fn an_event_is_meant_where_one_is_chosen_or_gone_into() {
    let mut model = two();
    let event = |event: &str, pid| Some((event.to_owned(), pid));
    assert_eq!(model.event(), event("a", None));
    go(&mut model, &[KeyCode::Down]);
    assert_eq!(model.event(), event("b", None));
    go(&mut model, &[KeyCode::Enter, KeyCode::Enter]);
    assert_eq!(model.event(), event("b", Some(2)));
    go(&mut model, &[KeyCode::Char('2')]);
    assert_eq!(model.event(), None);
    model.go_into_map("b x");
    assert_eq!((model.path().as_str(), model.entry()), ("processes › b x", None));
}

#[test]
fn processes_lead_to_their_events() {
    let mut model = two();
    go(&mut model, &[KeyCode::Tab, KeyCode::Enter]);
    assert_eq!(model.path(), "processes › process 1 by events");
    assert_eq!(shown(&mut model), [["a", "10", "30", "0", "0"]]);
    go(&mut model, &[KeyCode::Char('1')]);
    assert_eq!(model.path(), "events");
    go(&mut model, &[KeyCode::Char('c')]);
    assert_eq!(model.path(), "events › all by CPUs");
}

#[test]
fn a_paused_view_does_not_change() {
    let mut model = two();
    let before = shown(&mut model);
    model.paused = true;
    model.take(reading(9, &[("a", 1, "init", 1000)]));
    assert_eq!(shown(&mut model), before);
    model.paused = false;
    model.take(reading(9, &[("a", 1, "init", 1000)]));
    assert_ne!(shown(&mut model), before);
}

fn map(title: &str, entries: &[(&str, i128)]) -> MapReading {
    let entry = |(key, weight): &(&str, i128)| Entry {
        key: (*key).to_owned(),
        value: weight.to_string(),
        whole: format!("{weight}\nlines"),
        weight: *weight,
    };
    MapReading {
        title: title.to_owned(),
        function: "count".to_owned(),
        only_grows: true,
        entries: entries.iter().map(entry).collect(),
        most: 4096,
        ..MapReading::default()
    }
}

#[test]
fn maps_lead_to_their_keys_and_these_to_histograms() {
    let with_maps = |seconds, maps: Vec<MapReading>| Reading {
        maps,
        ..reading(seconds, &[])
    };
    let mut model = Model::default();
    model.take(with_maps(1, vec![map("@", &[("sh", 10)])]));
    model.take(with_maps(
        2,
        vec![map("@", &[("sh", 15), ("cat", 3)]), map("@all", &[("", 18)])],
    ));
    go(&mut model, &[KeyCode::Char('3')]);
    assert_eq!(
        shown(&mut model),
        [
            ["@", "count", "2", "4,096", "0"],
            ["@all", "count", "1", "4,096", "0"]
        ]
    );
    go(&mut model, &[KeyCode::Enter]);
    assert_eq!(shown(&mut model), [["sh", "15", "5.0"], ["cat", "3", "3.0"]]);
    go(&mut model, &[KeyCode::Enter]);
    assert_eq!(model.path(), "maps › @[sh]");
    assert_eq!(model.entry().unwrap().whole, "15\nlines");
    go(
        &mut model,
        &[KeyCode::Esc, KeyCode::Esc, KeyCode::Down, KeyCode::Enter],
    );
    assert_eq!(model.path(), "maps › @all");
    assert_eq!(model.entry().unwrap().weight, 18, "one without keys has no list");
}

#[test]
fn sessions_are_a_column_where_there_are_several() {
    let mut model = two();
    let of = |session: &str, event: &str| Hits {
        session: session.to_owned(),
        ..Hits::of(event, 1, "x", 0, 7)
    };
    model.take(Reading {
        at: Duration::from_secs(5),
        hits: vec![of("web", "a"), of("web", "b")],
        ..Reading::default()
    });
    assert_eq!(model.table().columns().len(), 5);
    model.take(Reading {
        at: Duration::from_secs(6),
        hits: vec![of("web", "a"), of("flight", "a")],
        ..Reading::default()
    });
    assert_eq!(model.table().columns().len(), 6);
    assert_eq!(shown(&mut model).len(), 2, "the same event of two sessions");
}
