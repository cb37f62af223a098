//! Values of `Location::wire` in runs on a team.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use syncline_fabric::{Member, Team};
use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
use syncline_testkit::{Random, as_role};

use crate::common::{in_processes, seeds, within};

/// Runs `f` in the members of a team on one host, and of one on two hosts.
fn teams<R: Send + 'static>(f: impl Fn(&mut Member) -> R + Sync + Send + 'static) -> Vec<Vec<R>> {
    within(move || {
        let one = Team::threads(4).quiet().run(&f).unwrap();
        let two = Team::hosts(2).processes(2).quiet().run(&f).unwrap();
        vec![one, two]
    })
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Item {
    text: String,
    values: Vec<f64>,
}

/// Builds a random overlay over wire and plain locations, runs it by `run`, and returns the final
/// values of the locations.
fn random_overlay(seed: u64, run: impl FnOnce(Overlay<'_>)) -> Vec<Item> {
    let mut random = Random::new(seed);
    let items: Vec<_> =
        (0..5).map(|i| Location::wire(format!("item {i}"), 4096, Item::default())).collect();
    let counts: Vec<_> = (0..5).map(|i| Location::plain(format!("count {i}"), 0_u64)).collect();
    let mut overlay = Overlay::new();
    for t in 0..9_u64 {
        let mut order: Vec<usize> = (0..5).collect();
        random.shuffle(&mut order);
        let writes = items[order[0]].write();
        let reads: Vec<_> = order[1..3].iter().map(|&l| items[l].read()).collect();
        let count = counts[order[0]].write();
        overlay.task(format!("task {t}"), (writes, reads, count), move |(item, read, n), step| {
            *n += t;
            let text: usize = read.iter().map(|item| item.text.len()).sum();
            item.text = format!("{t} {} {text} {n}", step.iteration());
            item.values.push(read.iter().map(|item| item.values.iter().sum::<f64>()).sum());
            item.values.push(t as f64);
            let over = item.values.len().saturating_sub(7);
            item.values.drain(..over);
        });
    }
    run(overlay);
    items.iter().map(|item| item.reader().acquire().unwrap().clone()).collect()
}

#[test]
fn random_overlays_end_as_on_threads() {
    for seed in seeds(1, 8) {
        let expected = random_overlay(seed, |overlay| {
            let mut overlay = overlay.check(Initial::Program).unwrap();
            overlay.run(Runner::pool(2), Stop::after(6)).unwrap();
        });
        for results in teams(move |me| {
            random_overlay(seed, |overlay| {
                let mut overlay = overlay.check(Initial::Program).unwrap();
                overlay.run_on(me, Runner::pool(2), Stop::after(6)).unwrap();
            })
        }) {
            for (rank, items) in results.iter().enumerate() {
                for (l, item) in items.iter().enumerate() {
                    // A member without a task that uses the location keeps its first value.
                    let unused = *item == Item::default();
                    assert!(unused || *item == expected[l], "seed {seed}, rank {rank}, item {l}");
                }
            }
            for (l, expected) in expected.iter().enumerate() {
                assert!(results.iter().any(|items| items[l] == *expected), "seed {seed}, item {l}");
            }
        }
    }
}

const ROLE: &str = "SYNCLINE_OVERLAY_WIRE_TEST";

#[test]
fn random_overlays_end_as_on_threads_in_processes() {
    let [out, error] = in_processes("team_wire::role", ROLE);
    for rank in 0..3 {
        assert!(out.contains(&format!("rank {rank} of 3 has compared")), "{out}{error}");
    }
}

/// Not a test: the processes of a team.
#[test]
fn role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let team = Team::processes(3).quiet().args(as_role("team_wire::role"));
    let compare = |me: &mut Member| {
        for seed in seeds(1, 8) {
            let expected = random_overlay(seed, |overlay| {
                let mut overlay = overlay.check(Initial::Program).unwrap();
                overlay.run(Runner::pool(2), Stop::after(6)).unwrap();
            });
            let items = random_overlay(seed, |overlay| {
                let mut overlay = overlay.check(Initial::Program).unwrap();
                overlay.run_on(me, Runner::pool(2), Stop::after(6)).unwrap();
            });
            let unused = |item: &Item| *item == Item::default();
            assert!(items.iter().zip(&expected).all(|(item, end)| unused(item) || item == end));
            assert!(!items.iter().all(unused), "a task of each member writes an item");
        }
        println!("rank {} of {} has compared", me.rank(), me.size());
    };
    team.run(compare).unwrap();
}

#[test]
fn all_users_get_the_final_value_and_the_overlay_runs_again() {
    for results in teams(|me| {
        let log = Location::wire("log", 256, String::new());
        let mut overlay = Overlay::new();
        // Rank 2 has no task; two tasks of rank 0 and one each of ranks 1 and 3.
        for (t, rank) in [0, 1, 3, 0].into_iter().enumerate() {
            let task = overlay.task(format!("task {t}"), log.write(), move |log, step| {
                log.push_str(&t.to_string());
                if t == 1 && step.iteration() == 1 {
                    step.leave();
                }
            });
            overlay.place(task, rank);
        }
        let mut overlay = overlay.check(Initial::Program).unwrap();
        overlay.run_on(me, Runner::pool(1), Stop::after(3)).unwrap();
        let first = log.reader().acquire().unwrap().clone();
        *log.writer().acquire().unwrap() = "x".to_owned();
        overlay.run_on(me, Runner::pool(2), Stop::after(1)).unwrap();
        drop(overlay);
        (first, log.into_inner().unwrap())
    }) {
        for (rank, (first, second)) in results.into_iter().enumerate() {
            if rank == 2 {
                assert_eq!((&*first, &*second), ("", "x"));
            } else {
                assert_eq!((&*first, &*second), ("01230123023", "x0123"));
            }
        }
    }
}

#[test]
fn a_value_over_the_bound_ends_the_run_in_all_members() {
    for results in teams(|me| {
        let list = Location::wire("list", 40, Vec::<u8>::new());
        let mut overlay = Overlay::new();
        for rank in 0..me.size() {
            overlay.task(format!("task {rank}"), list.write(), |list, _| list.extend([7; 6]));
        }
        let mut overlay = overlay.check(Initial::Program).unwrap();
        let error = overlay.run_on(me, Runner::pool(1), Stop::after(9)).unwrap_err().to_string();
        let kept = list.reader().acquire().unwrap().len();
        // A first value that is too long.
        *list.writer().acquire().unwrap() = vec![1; 100];
        let first = overlay.run_on(me, Runner::pool(1), Stop::after(1)).unwrap_err().to_string();
        // The team is as it was.
        list.writer().acquire().unwrap().clear();
        overlay.run_on(me, Runner::pool(1), Stop::after(1)).unwrap();
        let last = list.reader().acquire().unwrap().len();
        (error, kept, first, last)
    }) {
        for (rank, (error, kept, first, last)) in results.into_iter().enumerate() {
            let at = |origin: usize, error: &str| match origin == rank {
                true => error.to_owned(),
                false => format!("rank {origin}: {error}"),
            };
            let long = "task 'task 2' failed in iteration 1: the value of location 'list' takes 43 \
                        bytes, and its bound is 40";
            assert_eq!(error, at(2, long));
            let long = "the value of location 'list' takes 101 bytes, and its bound is 40";
            assert_eq!(first, at(0, long));
            assert_eq!((kept, last), (0, 24), "a run that fails keeps the value");
        }
    }
}

#[test]
fn a_bound_beyond_all_memory_is_an_error() {
    for results in teams(|me| {
        [usize::MAX, usize::MAX / 2].map(|bound| {
            let texts = ["a", "b", "c"].map(|name| Location::wire(name, bound, String::new()));
            let mut overlay = Overlay::new();
            for rank in 0..me.size() {
                let access = texts.each_ref().map(Location::write);
                overlay.task(format!("task {rank}"), access, |_, _| ());
            }
            let mut overlay = overlay.check(Initial::Program).unwrap();
            overlay.run_on(me, Runner::pool(1), Stop::after(1)).unwrap_err().to_string()
        })
    }) {
        for error in results.into_iter().flatten() {
            assert!(error.contains("the memory that members share: "), "{error}");
        }
    }
}

/// A number that cannot be received when it is 13.
#[derive(Serialize)]
struct Odd(u64);

impl<'de> Deserialize<'de> for Odd {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u64::deserialize(from)? {
            13 => Err(D::Error::custom("13")),
            other => Ok(Odd(other)),
        }
    }
}

mod of_another_member {
    #[derive(serde::Serialize, serde::Deserialize)]
    pub(super) struct Text(pub(super) Vec<String>);
}

/// Before anything is decoded.
#[test]
fn members_that_declare_different_types_are_told_of_both() {
    for results in teams(|me| {
        let run = |overlay: Overlay<'_>, me: &mut _| {
            let mut overlay = overlay.check(Initial::Program).unwrap();
            overlay.run_on(me, Runner::pool(1), Stop::after(2)).unwrap_err().to_string()
        };
        let mut overlay = Overlay::new();
        let (members, rank) = (me.size(), me.rank());
        if rank == 1 {
            let odd = Location::wire("odd", 64, of_another_member::Text(Vec::new()));
            for rank in 0..members {
                overlay.task(format!("task {rank}"), odd.write(), |_, _| ());
            }
            return run(overlay, me);
        }
        let odd = Location::wire("odd", 64, u64::MAX);
        for rank in 0..members {
            overlay.task(format!("task {rank}"), odd.write(), |_, _| ());
        }
        run(overlay, me)
    }) {
        let types = ["u64", "overlay::team_wire::of_another_member::Text"];
        let [first, second] =
            types.map(|of| format!("'odd' with {of} of at most 64 encoded bytes"));
        let told = format!("rank 0 has location {first}; rank 1 has location {second}");
        for error in results {
            assert_eq!(error, format!("the overlays differ: {told}"));
        }
    }
}

#[test]
fn a_value_that_cannot_be_decoded_ends_the_run_in_all_members() {
    for results in teams(|me| {
        let odd = Location::wire("odd", 16, Odd(10));
        let mut overlay = Overlay::new();
        for rank in 0..me.size() {
            overlay.task(format!("task {rank}"), odd.write(), |odd, _| odd.0 += 1);
        }
        let mut overlay = overlay.check(Initial::Program).unwrap();
        let body = overlay.run_on(me, Runner::pool(1), Stop::after(2)).unwrap_err().to_string();
        // The last value is 13: no task decodes it.
        odd.writer().acquire().unwrap().0 = 9;
        let last = overlay.run_on(me, Runner::pool(1), Stop::after(1)).unwrap_err().to_string();
        (body, last)
    }) {
        for (rank, (body, last)) in results.into_iter().enumerate() {
            let expected = "the bytes of location 'odd' are not a value of its type";
            let task = format!("task 'task 3' failed in iteration 0: {expected}");
            assert!(body.contains(&task), "{body}");
            assert_eq!(body.starts_with("rank 3: "), rank != 3, "{body}");
            assert!(last.contains(expected) && !last.contains("task"), "{last}");
            assert!(last.contains("; members may run different builds of the program, "), "{last}");
        }
    }
}
