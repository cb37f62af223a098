//! Misuse is reported as an error and has no effect, on one host and on several.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use syncline_fabric::{Member, Team};
use syncline_rma::{Rma, RmaError, Strided};
use syncline_testkit::again;

fn said<T: std::fmt::Debug>(result: Result<T, RmaError>) -> String {
    result.unwrap_err().to_string()
}

/// Every misuse that a member can detect by itself, without waiting for another member.
fn alone(rma: &mut Rma, me: &mut Member) -> Result<(), RmaError> {
    let other = (me.rank() + 1) % me.size();
    let words = rma.allocate::<u64>(me, 10)?;
    let numbers = words.view::<i64>()?;
    let mut two = [0_u64; 2];

    let size = me.size();
    let rank = format!("there is no rank {size}: the members are ranks 0 to {}", size - 1);
    assert_eq!(said(rma.put(&words, size, 0, &[1])), rank);
    assert_eq!(said(rma.get(&words, size, 0, &mut two)), rank);
    assert_eq!(said(rma.fence(size)), rank);
    for from in [9, 10, usize::MAX] {
        let outside = rma.put(&words, other, from, &[1, 2]);
        assert!(matches!(outside, Err(RmaError::Bounds { len: 10, .. })), "{outside:?}");
    }
    assert!(
        said(rma.accumulate(&numbers, other, 10, 1, &[5]))
            .contains("elements 10 to 11 are not all among the 10")
    );
    assert!(matches!(rma.fetch_add(&words, other, 10, 1), Err(RmaError::Bounds { .. })));
    let bytes = rma.allocate::<u8>(me, 12)?;
    assert!(
        said(bytes.view::<u64>()).contains("12 bytes is not a whole number of elements of 8 bytes")
    );

    // Rows of two elements, one element apart: the second element of each row is written twice.
    let overlapping = Strided { counts: &[2, 2], strides: &[1] };
    let twice = rma.put_strided(&words, other, 0, overlapping, &[1; 4], 0, &[2]);
    assert!(matches!(twice, Err(RmaError::Shape { .. })), "{twice:?}");

    let mut again = Rma::new(me)?;
    let foreign = "the memory was allocated by another member, or by another rma";
    assert!(said(again.put(&words, other, 0, &[1])).contains(foreign));

    // Freed memory is freed for all views of it.
    let view = words.view::<[u64; 2]>()?;
    rma.free(me, words)?;
    assert!(said(rma.put(&view, other, 0, &[[1, 2]])).contains("has been freed"));
    assert!(said(rma.put(&view, me.rank(), 0, &[[1, 2]])).contains("has been freed"));
    assert!(said(rma.free(me, view)).contains("has been freed"));
    rma.free(me, bytes)?;
    rma.sync()
}

/// Members make different calls: all get an error, and can go on.
fn apart(rma: &mut Rma, me: &mut Member) -> Result<(), RmaError> {
    let words = match me.rank() {
        0 => rma.allocate::<u64>(me, 4).map(drop),
        _ => rma.allocate::<u32>(me, 4).map(drop),
    };
    assert!(said(words).contains("all members allocate, free and make mutexes together"));
    let huge = rma.allocate::<u64>(me, if me.rank() == 0 { usize::MAX / 64 } else { 1 });
    assert!(matches!(huge, Err(RmaError::Room { .. })), "{huge:?}");
    let words = rma.allocate::<u64>(me, 4)?;
    rma.put(&words, (me.rank() + 1) % me.size(), 0, &[7; 4])?;
    rma.sync()?;
    let mut found = [0; 4];
    rma.get(&words, me.rank(), 0, &mut found)?;
    assert_eq!(found, [7; 4]);
    Ok(())
}

fn all(me: &mut Member) -> Result<(), RmaError> {
    let mut rma = Rma::new(me)?;
    alone(&mut rma, me)?;
    apart(&mut rma, me)
}

#[test]
fn misuse_is_told_on_one_host() {
    for result in Team::threads(3).quiet().run(all).unwrap() {
        result.unwrap();
    }
}

#[test]
fn misuse_is_told_between_hosts() {
    for result in Team::hosts(2).threads(2).quiet().run(all).unwrap() {
        result.unwrap();
    }
}

/// All members get the same error about the member that asked for the most and the host that has no
/// room. None gets the memory, and all go on.
#[test]
fn all_are_told_who_asked_for_more_than_there_is() {
    let ask = |me: &mut Member| {
        let mut rma = Rma::new(me)?;
        let (rank, before) = (me.rank(), rma.allocate::<u8>(me, 3 << 20)?);
        rma.free(me, before)?;
        for bytes in [1 << 44, usize::MAX] {
            let error = rma.allocate::<u8>(me, if rank == 1 { bytes } else { 8 }).unwrap_err();
            let RmaError::Room { rank: 1, asked, host, left, .. } = error else {
                panic!("{error}")
            };
            assert!(
                asked == bytes as u64
                    && left < asked
                    && host == if me.hosts().count() > 1 { 1 } else { 0 }
            );
            let said = error.to_string();
            assert!(
                said.starts_with("rank 1 asked for 16 ")
                    && said.contains(&format!("; host {host} has ")),
                "{said}"
            );
        }
        // Memory that was freed is zero when it is allocated again, and no room is lost.
        let after = rma.allocate::<u8>(me, 3 << 20)?;
        let mut bytes = vec![1; 3 << 20];
        rma.get(&after, rank, 0, &mut bytes)?;
        assert!(bytes.iter().all(|&byte| byte == 0));
        rma.put(&after, rank, 0, &[7; 3 << 20])?;
        rma.sync()
    };
    for ended in
        [Team::threads(3).quiet().run(ask).unwrap(), Team::hosts(2).quiet().run(ask).unwrap()]
    {
        ended.into_iter().collect::<Result<(), RmaError>>().unwrap();
    }
}

/// The reservation is larger than the host's memory: an allocation that the host cannot back is
/// refused, and no process is killed.
#[test]
fn memory_that_the_host_has_not_is_refused() {
    let Some(most) = syncline_memory::room::most() else { return };
    // The host may also swap.
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let swap = meminfo.lines().find_map(|line| line.strip_prefix("SwapTotal:")).unwrap();
    let swap: u64 = swap.trim().trim_end_matches("kB").trim().parse().unwrap();
    let most = most + 1024 * swap;
    let ask = |me: &mut Member| {
        let mut rma = Rma::new(me)?;
        let half = most as usize / 2 + (1 << 20);
        let error = rma.allocate::<u8>(me, half).unwrap_err();
        let RmaError::Room { rank: 0, together, left, .. } = error else { panic!("{error}") };
        assert!(together > left && error.to_string().contains(", all of its host for "), "{error}");
        rma.sync()
    };
    let ended = Team::threads(2).quiet().memory(4 * most as usize).run(ask).unwrap();
    ended.into_iter().collect::<Result<(), RmaError>>().unwrap();
}

/// The environment variable that marks the process of [`under_a_limit`].
const LIMITED: &str = "SYNCLINE_TEST_LIMITED";

/// Not a test by itself: members allocate memory that the host has, but that a limit denies to this
/// process.
#[test]
fn under_a_limit() {
    if std::env::var_os(LIMITED).is_none() {
        return;
    }
    let ask = |me: &mut Member| {
        let mut rma = Rma::new(me)?;
        me.wait()?;
        let before = getrlimit(Resource::Data);
        if me.rank() == 0 {
            let used = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: u64 = used.split(' ').nth(5).unwrap().parse().unwrap();
            let most = pages * rustix::param::page_size() as u64 + (16 << 20);
            setrlimit(Resource::Data, Rlimit { current: Some(most), ..before }).unwrap();
        }
        me.wait()?;
        let asked = rma.allocate::<u8>(me, 64 << 20);
        let wrote = asked.as_ref().map(|part| rma.put(part, me.rank(), 0, &[7; 4096]));
        assert!(!matches!(wrote, Ok(Err(_))), "what was allocated is there");
        me.wait()?;
        // Reporting a failure takes memory, so the limit is lifted first.
        if me.rank() == 0 {
            setrlimit(Resource::Data, before).unwrap();
        }
        me.wait()?;
        let error = asked.unwrap_err();
        assert!(matches!(error, RmaError::Room { .. }), "{error}");
        let there = rma.allocate::<u8>(me, 64 << 20)?;
        rma.put(&there, me.rank(), 0, &[7; 4096])?;
        rma.sync()
    };
    let ended = Team::threads(2).quiet().memory(1 << 30).run(ask).unwrap();
    ended.into_iter().collect::<Result<(), RmaError>>().unwrap();
}

/// Memory that cannot be committed is refused to all members, though the host has it: touching it
/// would kill the process.
#[test]
fn memory_that_cannot_be_taken_is_refused() {
    let ended = again("misuse::under_a_limit").env(LIMITED, "1").output().unwrap();
    assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
}
