//! Waits of one-sided operations, and the requests that servers execute, in traces in memory.

use std::time::Duration;

use syncline_fabric::{Member, Team};
use syncline_rma::{Rma, RmaError};
use syncline_trace::note::{Note, ObjectClass, notes};
use syncline_trace::{Activity, Event, enable, mark, snapshot};

/// The rank of a thread is in the mark with which its member begins.
const RANK: u32 = 71;
const SYNCS: u64 = 4;

fn operate(me: &mut Member) -> Result<(), RmaError> {
    mark(Activity::Mark, RANK, me.rank() as u64);
    let mut rma = Rma::new(me)?;
    let memory = rma.allocate::<u64>(me, 1 << 18)?;
    let long = rma.allocate::<u64>(me, 1 << 20)?;
    if me.rank() == 0 {
        rma.put(&memory, 1, 0, &[5; 10])?;
        rma.fence(1)?;
        let mut words = [0; 10];
        rma.get(&memory, 1, 0, &mut words)?;
        assert_eq!(words, [5; 10]);
        rma.put(&long, 1, 0, &vec![6; 1 << 20])?;
        rma.fence_all()?;
        assert_eq!(rma.fetch_add(&memory, 1, 0, 2)?, 5);
    }
    (0..SYNCS).try_for_each(|_| rma.sync())
}

fn name_of(class: ObjectClass, id: u32) -> String {
    let named = notes().into_iter().find_map(|note| match note {
        Note::Name { class: of, id: other, name } if (of, other) == (class, id) => Some(name),
        _ => None,
    });
    named.unwrap_or_default()
}

/// The events of the member of this rank.
fn of_rank(events: &[Event], rank: u64) -> Vec<Event> {
    let begin = events.iter().find(|event| (event.subject, event.detail) == (RANK, rank)).unwrap();
    events.iter().filter(|event| event.thread == begin.thread).copied().collect()
}

fn subjects(events: &[Event], activity: Activity) -> Vec<u32> {
    events.iter().filter(|e| e.activity == activity).map(|event| event.subject).collect()
}

/// The tests share the recorder, so they are one test.
#[test]
fn operations_between_hosts_have_their_waits_and_their_server() {
    enable(1 << 14);
    Team::hosts(2).quiet().run(operate).unwrap().into_iter().collect::<Result<(), _>>().unwrap();
    let events = snapshot();
    let mine = of_rank(&events, 0);
    assert_eq!(subjects(&mine, Activity::AwaitFence), [1, u32::MAX]);
    // The get, and the fetch-add.
    let answers = subjects(&mine, Activity::AwaitMessage).into_iter().filter(|&peer| peer == 1);
    assert!(answers.count() >= 2);
    // Each request was executed by a thread of the other process, for process 0.
    let served = subjects(&events, Activity::Serve);
    assert!(served.len() >= 4 && served.iter().all(|&peer| peer == 0), "{served:?}");
    assert!(subjects(&mine, Activity::Serve).is_empty());
    for rank in [0, 1] {
        let events = of_rank(&events, rank);
        let syncs: Vec<_> = events.iter().filter(|e| e.activity == Activity::AwaitSync).collect();
        assert!(syncs.len() >= SYNCS as usize, "{syncs:?}");
        assert!(syncs.windows(2).all(|pair| pair[0].detail + 1 == pair[1].detail), "{syncs:?}");
        let name = name_of(ObjectClass::Barrier, syncs[0].subject);
        assert!(name.ends_with("of the team (sync)"), "{name}");
    }
    on_one_host_a_sync_is_one_span_and_a_contended_mutex_has_waits();
}

fn on_one_host_a_sync_is_one_span_and_a_contended_mutex_has_waits() {
    syncline_trace::clear();
    let run = |me: &mut Member| {
        mark(Activity::Mark, RANK, me.rank() as u64);
        let mut rma = Rma::new(me)?;
        let mut mutexes = rma.mutexes(me, 2)?;
        rma.sync()?;
        // Member 1 may begin to wait late: then member 0 holds the mutex for longer.
        for attempt in 0..20 {
            if me.rank() == 0 {
                mutexes.lock(&mut rma, 1, 1)?;
                me.wait().unwrap();
                std::thread::sleep(Duration::from_millis(1 << attempt));
                mutexes.unlock(&mut rma, 1, 1)?;
            } else {
                me.wait().unwrap();
                mutexes.lock(&mut rma, 1, 1)?;
                mutexes.unlock(&mut rma, 1, 1)?;
            }
            me.wait().unwrap();
            let held = |event: &Event| event.activity == Activity::HoldLock;
            let done = snapshot().iter().any(held);
            if me.gather(done.into()).unwrap()[0] != 0 {
                break;
            }
        }
        rma.sync()
    };
    let ended: Vec<Result<(), RmaError>> = Team::threads(2).quiet().run(run).unwrap();
    ended.into_iter().collect::<Result<(), _>>().unwrap();
    let events = snapshot();
    let [holder, waiter] = [of_rank(&events, 0), of_rank(&events, 1)];
    for events in [&holder, &waiter] {
        let syncs = subjects(events, Activity::AwaitSync);
        assert!(syncs.iter().all(|sync| !subjects(events, Activity::AwaitBarrier).contains(sync)));
    }
    let held = *holder.iter().rfind(|event| event.activity == Activity::HoldLock).unwrap();
    let waited = *waiter.iter().rfind(|event| event.activity == Activity::AwaitLock).unwrap();
    assert_eq!((held.detail, waited.detail), (0, 1));
    let names = [held, waited].map(|event| name_of(ObjectClass::Lock, event.subject));
    assert!(names[0].starts_with("mutex 1 of rank 1 in set "), "{names:?}");
    assert_eq!(names[0], names[1]);
}
