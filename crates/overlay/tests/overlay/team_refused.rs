//! What a run on a team leaves behind that is refused, fails, or finds a location in use.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use syncline_fabric::{Member, Team};
use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};

use crate::common::{late, within};

/// Runs an overlay in which one task in each of two members reads a location.
fn read_by_two<T: Send + Sync + 'static>(
    me: &mut Member,
    location: &Location<T>,
) -> Result<(), String> {
    let mut overlay = Overlay::new();
    for rank in 0..2 {
        let task = overlay.task(format!("task {rank}"), location.read(), |_, _| ());
        overlay.place(task, rank);
    }
    let mut overlay = overlay.check(Initial::Program).unwrap();
    let run = overlay.run_on(me, Runner::pool(1), Stop::after(1));
    run.map(|_| ()).map_err(|error| error.to_string())
}

/// A run gives each member the final value of a location, also if no task writes it.
#[test]
fn a_location_with_a_reading_guard_is_in_use() {
    let results = within(|| {
        Team::threads(2).quiet().run(|me| {
            let plain = Location::plain("plain", me.rank() as u64);
            let wire = Location::wire("wire", 64, vec![me.rank() as u64]);
            let reading = me.rank() == 1;
            let (mut of_plain, mut of_wire) = (plain.reader(), wire.reader());
            let guards = reading.then(|| (of_plain.acquire().unwrap(), of_wire.acquire().unwrap()));
            let first = [read_by_two(me, &plain), read_by_two(me, &wire)];
            if let Some((number, numbers)) = &guards {
                assert_eq!((**number, numbers.as_slice()), (1, &[1][..]));
            }
            drop(guards);
            read_by_two(me, &plain).unwrap();
            read_by_two(me, &wire).unwrap();
            assert_eq!(*of_plain.acquire().unwrap(), 0);
            assert_eq!(*of_wire.acquire().unwrap(), [0]);
            first
        })
    });
    for (rank, refused) in results.unwrap().into_iter().enumerate() {
        for (name, refused) in ["plain", "wire"].into_iter().zip(refused) {
            let error = refused.unwrap_err();
            let told = format!(
                "location '{name}' is in use: another overlay runs with it, or a handle has a request"
            );
            let told = if rank == 1 { told } else { format!("rank 1: {told}") };
            assert_eq!(error, told);
        }
    }
}

/// The memory of one host does not suffice for a run. The next run of the same members does.
#[test]
fn a_run_after_one_that_one_host_refused_ends() {
    let results = within(|| {
        Team::hosts(2).processes(2).memory(1 << 20).quiet().run(|me| {
            let large = Location::wire("large", 1 << 30, 0_u64);
            let mut overlay = Overlay::new();
            for rank in 2..4 {
                let task = overlay.task(format!("task {rank}"), large.write(), |n, _| *n += 1);
                overlay.place(task, rank);
            }
            let mut overlay = overlay.check(Initial::Program).unwrap();
            overlay.run_on(me, Runner::pool(1), Stop::after(1)).unwrap_err();
            let token = Location::plain("token", 0_u64);
            let mut overlay = Overlay::new();
            for rank in 0..me.size() {
                overlay.task(format!("member {rank}"), token.write(), |token, _| *token += 1);
            }
            let mut overlay = overlay.check(Initial::Program).unwrap();
            overlay.run_on(me, Runner::pool(1), Stop::after(3)).unwrap();
            drop(overlay);
            token.into_inner().unwrap()
        })
    });
    assert_eq!(results.unwrap(), [12; 4]);
}

/// A value whose encoding, or whose decoding after the run, panics.
#[derive(Default)]
struct Bad {
    encoding: bool,
    decoding: bool,
}

impl Serialize for Bad {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        assert!(!self.encoding, "planted in Serialize");
        self.decoding.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Bad {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        thread_local!(static DECODED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
        let decoding = bool::deserialize(from)?;
        // The thread of the member runs its only task, which decodes the value once.
        if decoding {
            assert!(DECODED.replace(DECODED.get() + 1) == 0, "planted in Deserialize");
        }
        Ok(Bad { decoding, ..Bad::default() })
    }
}

/// Returns what a run says, and whether its location is free after it, in two members.
fn after_a_panic(encoding: bool) -> Vec<(String, bool)> {
    let results = within(move || {
        Team::threads(2).quiet().run(move |me| {
            let bad = Bad { encoding: encoding && me.rank() == 0, decoding: !encoding };
            let location = Location::wire("bad", 64, bad);
            let told = read_by_two(me, &location).unwrap_err();
            let free = location.writer().acquire_until(late()).is_ok();
            (told, free)
        })
    });
    results.unwrap()
}

#[test]
fn a_panic_in_serialize_is_an_error_of_all_members() {
    let error =
        "the value of location 'bad' cannot be serialised: it panicked: planted in Serialize";
    let expected = [(error.to_owned(), true), (format!("rank 0: {error}"), true)];
    assert_eq!(after_a_panic(true), expected);
}

#[test]
fn a_panic_in_deserialize_is_an_error_of_all_members() {
    for (told, free) in after_a_panic(false) {
        assert!(told.contains("it panicked: planted in Deserialize"), "{told}");
        assert!(free);
    }
}

#[derive(Deserialize)]
struct Refuses;

impl Serialize for Refuses {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it refuses"))
    }
}

#[test]
fn the_memory_of_refused_runs_is_used_again() {
    let results = within(|| {
        Team::hosts(2).processes(2).memory(40 << 20).quiet().run(|me| {
            let location = Location::wire("refuses", 8 << 20, Refuses);
            let mut overlay = Overlay::new();
            for rank in 0..me.size() {
                overlay.task(format!("task {rank}"), location.write(), |_, _| ());
            }
            let mut overlay = overlay.check(Initial::Program).unwrap();
            let mut run = || overlay.run_on(me, Runner::pool(1), Stop::after(1)).unwrap_err();
            (0..20).map(|_| run().to_string()).collect::<Vec<_>>()
        })
    });
    for told in results.unwrap().into_iter().flatten() {
        assert!(told.contains("the value of location 'refuses' cannot be serialised"), "{told}");
    }
}
