//! Hosts as writers of one file, with edges that travel in any order.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use syncline_testkit::{Random, cases, seed};

use super::super::testing::any_share_of;
use super::*;
use crate::buffer::IoBuffer;
use crate::io_queue::Method;

/// The byte at an offset of a complete file.
fn expected(share: &Share, offset: u64) -> u8 {
    match share.header().get(offset as usize) {
        Some(&byte) => byte,
        None => (offset.wrapping_mul(0x9e37_79b9) >> 16) as u8,
    }
}

/// Returns a file as it is preallocated for a share: of full length, with other contents.
fn new_file(share: &Share) -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&vec![0xee; share.rows().end() as usize], 0).unwrap();
    file
}

fn open(file: &File) -> DirectFile {
    DirectFile::of(file, Path::new("name"), true).unwrap()
}

/// Returns a buffer with the rows of a host, and other bytes around them.
fn filled(writer: &ColumnWriter, rows: &Range<u64>) -> IoBuffer {
    let (columns, place) = writer.share.place(rows, writer.host);
    let mut buffer = IoBuffer::new(place.room).unwrap();
    buffer.as_mut_slice().fill(0xdd);
    for row in rows.clone() {
        let own = writer.share.columns(row, writer.host);
        if own.is_empty() {
            continue;
        }
        let at = place.lead + (row - rows.start) as usize * place.pitch;
        let at = at + (own.start - columns.start) as usize;
        for (nth, offset) in writer.share.bytes(row, writer.host).enumerate() {
            buffer.as_mut_slice()[at + nth] = expected(&writer.share, offset);
        }
    }
    buffer
}

/// A fault that a run is made with.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Forgotten,
    Twice,
}

/// Runs all hosts in random order; returns the file, or the first error.
fn run(random: &mut Random, shares: &[Arc<Share>], file: &File, fault: Fault) -> Result<bool> {
    let share = &shares[0];
    let mut queue = IoQueue::new(random.one_of(&[Method::Uring, Method::Plain]));
    let mut hosts = Vec::new();
    for (host, share) in shares.iter().enumerate() {
        let mut direct = open(file);
        // A host whose file system refuses direct requests, beside others.
        if share.block() >= best_block() && random.one_in(6) {
            direct = direct.claiming_no_alignment();
        }
        hosts.push(ColumnWriter::new(direct, share.clone(), host)?);
    }
    let rows = share.rows().rows;
    let ahead = 1 + random.below(rows);
    let (mut mail, mut planted, up) = (Vec::new(), false, random.one_in(2));
    loop {
        let least = hosts.iter().map(ColumnWriter::rows_given).min().unwrap_or(rows);
        if least == rows && mail.is_empty() {
            break;
        }
        let host = random.below(hosts.len());
        let next = hosts[host].rows_given();
        let most = rows.min(least + ahead) - next.min(rows.min(least + ahead));
        if most > 0 && (mail.is_empty() || random.one_in(2)) {
            let band = next..next + 1 + random.below(most.min(40));
            let band = if up { rows - band.end..rows - band.start } else { band };
            let mut buffer = filled(&hosts[host], &band);
            hosts[host].write(&mut queue, buffer.as_mut_slice(), band.clone())?;
            let before: Vec<_> = hosts[host].take_edges().collect();
            for (to, message) in &before {
                assert_ne!(*to, host);
                if shares.iter().all(|other| Arc::ptr_eq(other, share)) {
                    assert!(message.len() <= share.edge_bytes(band.clone(), host, *to));
                }
            }
            mail.extend(before);
            if !hosts[host].is_complete() && random.one_in(10) {
                hosts[host].flush(&mut queue)?;
            }
        } else if !mail.is_empty() {
            let nth = random.below(mail.len());
            let (to, message) = mail.swap_remove(nth);
            if fault != Fault::None && !planted {
                planted = true;
                if fault == Fault::Forgotten {
                    continue;
                }
                mail.push((to, message.clone()));
            }
            hosts[to].accept(&message)?;
        }
        // The bound of the documentation; edges of rows ahead count too.
        let bound = 2 * (ahead + 40) as usize + 1;
        assert!(hosts.iter().all(|host| host.incomplete() <= bound));
    }
    for host in hosts {
        host.finish(&mut queue)?;
    }
    Ok(planted)
}

fn is_as_expected(share: &Share, file: &File) -> bool {
    let mut found = vec![0; share.rows().end() as usize];
    assert_eq!(file.metadata().unwrap().len(), found.len() as u64);
    file.read_exact_at(&mut found, 0).unwrap();
    found.iter().enumerate().all(|(at, &byte)| byte == expected(share, at as u64))
}

fn shares(share: Share) -> Vec<Arc<Share>> {
    let hosts = share.hosts();
    let share = Arc::new(share);
    vec![share; hosts]
}

/// Returns the length of a block that every host can write.
fn best_block() -> usize {
    Share::best_block(&open(&tempfile::tempfile().unwrap()))
}

/// Returns a share whose blocks can be written here: those of direct requests, or longer ones.
fn writable(random: &mut Random, bytes: u64) -> Share {
    let least = Share::least_block(&open(&tempfile::tempfile().unwrap()));
    let block = random.one_of(&[least.max(512), best_block()]);
    any_share_of(random, bytes, block)
}

/// Returns the generator of a test, and prints its seed.
fn generator(fixed: u64) -> Random {
    let seed = seed(fixed);
    println!("seed {seed}");
    Random::new(seed)
}

#[test]
fn the_file_is_complete_whatever_the_order() {
    let mut random = generator(41);
    for round in 0..cases(300) {
        let bytes = if round % 20 == 0 { 600_000 } else { 30_000 };
        let shares = shares(writable(&mut random, bytes));
        let file = new_file(&shares[0]);
        run(&mut random, &shares, &file, Fault::None).unwrap();
        assert!(is_as_expected(&shares[0], &file), "{:?}", shares[0]);
    }
}

#[test]
fn hosts_write_at_the_same_time() {
    let mut random = generator(42);
    for _ in 0..cases(20) {
        let shares = shares(writable(&mut random, 400_000));
        let file = new_file(&shares[0]);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            shares.iter().map(|_| std::sync::mpsc::channel::<Vec<u8>>()).unzip();
        std::thread::scope(|scope| {
            for (host, inbox) in receivers.into_iter().enumerate() {
                let (share, file, senders) = (shares[host].clone(), open(&file), senders.clone());
                scope.spawn(move || {
                    let mut queue = IoQueue::new(Method::Auto);
                    let mut writer = ColumnWriter::new(file, share.clone(), host).unwrap();
                    let rows = share.rows().rows;
                    for from in (0..rows).step_by(16) {
                        let band = from..(from + 16).min(rows);
                        let mut buffer = filled(&writer, &band);
                        writer.write(&mut queue, buffer.as_mut_slice(), band).unwrap();
                        for (to, edge) in writer.take_edges() {
                            senders[to].send(edge).unwrap();
                        }
                        inbox.try_iter().for_each(|edge| writer.accept(&edge).unwrap());
                    }
                    drop(senders);
                    inbox.iter().for_each(|edge| writer.accept(&edge).unwrap());
                    writer.finish(&mut queue).unwrap();
                });
            }
            drop(senders);
        });
        assert!(is_as_expected(&shares[0], &file), "{:?}", shares[0]);
    }
}

#[test]
fn an_edge_that_is_forgotten_or_comes_twice_is_found() {
    let mut random = generator(43);
    let (mut forgotten, mut twice, all) = (0, 0, cases(200));
    for _ in 0..all {
        let shares = shares(writable(&mut random, 20_000));
        let file = new_file(&shares[0]);
        match run(&mut random, &shares, &file, Fault::Forgotten) {
            Ok(planted) => assert!(!planted),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(" has sent no edge with them"), "{error}");
                forgotten += 1;
            }
        }
        match run(&mut random, &shares, &file, Fault::Twice) {
            Ok(planted) => assert!(!planted),
            Err(error) => {
                assert!(error.to_string().contains(" were given twice: "), "{error}");
                twice += 1;
            }
        }
    }
    assert!(forgotten > all / 4 && twice > all / 4, "{forgotten} {twice} of {all}");
}

/// One host cuts eight bytes further east or west than the others, so two hosts, or none, own some
/// bytes; or it has longer blocks, so two hosts would write a block.
#[test]
fn hosts_that_divide_differently_are_found() {
    let mut random = generator(44);
    let (mut found, best, all) = (0, best_block(), cases(200));
    for _ in 0..all {
        let share = |by: i64, block| {
            Share::new(b"head", (40, 6000), 3, block, move |row, host| {
                (2000 * host as u64 - 8 * (row % 20)).saturating_add_signed(by)
            })
        };
        let (by, block) = random.one_of(&[(-8, best), (8, best), (-400, best), (0, 2 * best)]);
        let right = Arc::new(share(0, best).unwrap());
        let mut shares = vec![right; 3];
        shares[random.below(3)] = Arc::new(share(by, block).unwrap());
        let file = new_file(&shares[0]);
        found += u32::from(run(&mut random, &shares, &file, Fault::None).is_err());
    }
    assert_eq!(found, all);
}

/// What the edges are for: two hosts that each read, change and write the blocks at the cut lose
/// each other's bytes, and the comparison of these tests finds it.
#[test]
fn two_writers_of_a_block_lose_data() {
    let share = Share::new(b"", (8, 3000), 2, 4096, |_, _| 1500).unwrap();
    let file = new_file(&share);
    let end = share.rows().end() as usize;
    // Both hosts have read before either has written.
    let mut blocks = [vec![0; end], vec![0; end]];
    for block in &mut blocks {
        file.read_exact_at(block, 0).unwrap();
    }
    for (host, block) in blocks.iter_mut().enumerate() {
        for row in 0..8 {
            for offset in share.bytes(row, host) {
                block[offset as usize] = expected(&share, offset);
            }
        }
        file.write_all_at(block, 0).unwrap();
    }
    assert!(!is_as_expected(&share, &file));
}

#[test]
fn what_does_not_fit_is_refused() {
    let share = Arc::new(Share::new(b"head", (10, 5000), 2, best_block(), |_, _| 2500).unwrap());
    let file = new_file(&share);
    let mut queue = IoQueue::new(Method::Plain);
    let error = |result: Result<()>| result.unwrap_err().to_string();
    let read_only = DirectFile::of(&file, Path::new("name"), false).unwrap();
    assert!(ColumnWriter::new(read_only, share.clone(), 0).is_err());
    let wrong = ColumnWriter::new(open(&file), share.clone(), 2).unwrap_err().to_string();
    assert_eq!(wrong, "name: it is shared by 2 hosts, there is no host 2");
    let short = Arc::new(any_share_of(&mut Random::new(1), 1000, 1));
    assert!(ColumnWriter::new(open(&file), short, 0).is_err());
    let mut writer = ColumnWriter::new(open(&file), share.clone(), 1).unwrap();
    let mut buffer = filled(&writer, &(0..3));
    let found = error(writer.write(&mut queue, buffer.as_mut_slice(), 8..11));
    assert_eq!(found, "name: rows 8 to 11 were given after rows 8 to 8 of 10");
    let found = error(writer.write(&mut queue, &mut buffer.as_mut_slice()[..100], 0..3));
    assert!(found.contains("the buffer has 100 bytes"), "{found}");
    let room = writer.share.place(&(0..1), writer.host).1.room;
    if open(&file).is_direct() {
        let found = error(writer.write(&mut queue, &mut buffer.as_mut_slice()[1..=room], 0..1));
        assert!(found.contains("does not begin on a page boundary"), "{found}");
    }
    let mut other = ColumnWriter::new(open(&file), share, 1).unwrap();
    other.write(&mut queue, filled(&writer, &(4..6)).as_mut_slice(), 4..6).unwrap();
    for rows in [7..8, 2..3, 5..6] {
        let found = error(other.write(&mut queue, buffer.as_mut_slice(), rows));
        assert!(found.contains("were given after rows 4 to 6 of 10"), "{found}");
    }
    let mut message = Vec::new();
    edge::push(&mut message, 4, &[0; 8]);
    let found = error(writer.accept(&message[..15]));
    assert_eq!(found, "name: an edge of 15 bytes ends within a part");
    // Bytes of host 0 in the first block, of which host 1 owns the last byte.
    assert!(writer.accept(&message).is_ok());
    assert!(error(writer.accept(&message)).contains("given twice"));
    let mut own = Vec::new();
    edge::push(&mut own, 3000, &[0; 8]);
    assert!(error(writer.accept(&own)).contains("divide it differently"));
    let mut outside = Vec::new();
    edge::push(&mut outside, 50_004, &[0; 8]);
    assert!(error(writer.accept(&outside)).contains("which are in no row"));
    let found = writer.finish(&mut queue).unwrap_err().to_string();
    assert_eq!(found, "name: host 1 wrote 0 of 10 rows");
}
