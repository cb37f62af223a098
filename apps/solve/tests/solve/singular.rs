//! Components against those that Singular finds: `minAssGTZ`, where it is installed.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use syncline_solve::poly::{Poly, Ring};
use syncline_solve::{Method, Mode, Source, solve};
use syncline_testkit::{Random, cases, seed};

use crate::has_flint;
use crate::random_systems::random_poly;

/// The dimension and the degree of each component, in order.
pub(crate) type Degrees = Vec<(usize, usize)>;

pub(crate) fn own_degrees(ring: &Ring, equations: &[Poly], method: Method) -> Degrees {
    let (equations, _) = method.prepare(ring, equations, &[]);
    let solution = solve(ring, &equations, &[], Mode::Kalkbrener, true);
    assert!(solution.components.iter().all(|component| component.is_prime), "{equations:?}");
    let dimensions = solution.components.iter().map(|component| component.chain.dimension());
    let mut degrees = dimensions.zip(solution.degrees.iter().copied()).collect::<Vec<_>>();
    degrees.sort();
    degrees
}

/// What Singular answers.
pub(crate) enum Answer {
    Missing,
    /// It has not ended within its time.
    Late,
    Degrees(Vec<Degrees>),
}

/// The degrees of all systems by one run of Singular, which ends within a time.
pub(crate) fn singular_degrees(systems: &[(Ring, Vec<Poly>)], within: Duration) -> Answer {
    let mut script = "LIB \"primdec.lib\"; option(noloadLib); option(noredefine);\n".to_owned();
    for (ring, equations) in systems {
        let equations = equations.iter().map(Poly::to_string).collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            script,
            "ring r = {}, ({}), dp; ideal i = {equations}; list l; int k;\n\
             if (dim(std(i)) >= 0) {{ l = minAssGTZ(i); }}\n\
             print(\"system\");\n\
             for (k = 1; k <= size(l); k++) {{ ideal s = std(l[k]);\n\
             print(\"component \" + string(dim(s)) + \" \" + string(mult(s))); kill s; }}\n\
             kill r;",
            ring.prime(),
            ring.names().join(", "),
        );
    }
    script.push_str("quit;\n");
    let child = Command::new("Singular")
        .args(["-q", "--no-warn"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: Singular is not installed");
        return Answer::Missing;
    };
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // Both end when the process does.
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > within {
            child.kill().unwrap();
            child.wait().unwrap();
            return Answer::Late;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    writer.join().unwrap().unwrap();
    let text = reader.join().unwrap().unwrap();
    let mut found: Vec<Degrees> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("system") => found.push(Vec::new()),
            Some("component") => {
                let mut number = || words.next().unwrap().parse().unwrap();
                found.last_mut().unwrap().push((number(), number()));
            }
            _ => panic!("Singular prints: {line}"),
        }
    }
    assert_eq!(found.len(), systems.len(), "{text}");
    for degrees in &mut found {
        degrees.sort();
    }
    Answer::Degrees(found)
}

/// A time that no run of Singular here needs.
const LONG: Duration = Duration::from_secs(600);

fn compare(systems: &[(Ring, Vec<Poly>)]) {
    let theirs = match singular_degrees(systems, LONG) {
        Answer::Missing => return,
        Answer::Late => panic!("Singular takes more than {LONG:?}"),
        Answer::Degrees(theirs) => theirs,
    };
    for ((ring, equations), theirs) in systems.iter().zip(theirs) {
        for method in [Method::Chains, Method::Auto] {
            let own = own_degrees(ring, equations, method);
            assert_eq!(own, theirs, "{method:?} {ring:?} {equations:?}");
        }
    }
}

#[test]
fn random_systems_have_the_components_that_singular_finds() {
    if !has_flint() {
        return;
    }
    let first = seed(0);
    println!("seeds from {first} on");
    let systems = (first..first + u64::from(cases(100))).map(|seed| {
        let mut random = Random::new(seed);
        let variables = 2 + random.below(3);
        let names = ["x", "y", "z", "t"][..variables].iter().map(|&name| name.to_owned());
        let prime = [101, 7841, 32003][random.below(3)];
        let ring = Ring::new(&names.collect::<Vec<_>>(), prime).unwrap();
        // Dimensions 0 to 2.
        let count = variables - random.below(3).min(variables - 1);
        let equations = (0..count).map(|_| {
            let poly = random_poly(&ring, &mut random);
            match random.below(4) {
                0 => &poly * &random_poly(&ring, &mut random),
                _ => poly,
            }
        });
        let equations = equations.collect();
        (ring, equations)
    });
    compare(&systems.collect::<Vec<_>>());
}

#[test]
#[ignore = "full: 40 s of Singular"]
fn classics_have_the_components_that_singular_finds() {
    if !has_flint() {
        return;
    }
    let texts = [
        include_str!("../systems/classics/boon.txt"),
        include_str!("../systems/classics/butcher3.txt"),
        include_str!("../systems/classics/caprasse.txt"),
        include_str!("../systems/classics/chandra5.txt"),
        include_str!("../systems/classics/cyclic4.txt"),
        include_str!("../systems/classics/cyclic5.txt"),
        include_str!("../systems/classics/katsura3.txt"),
        include_str!("../systems/classics/katsura4.txt"),
        include_str!("../systems/classics/kin1.txt"),
        include_str!("../systems/classics/lorentz.txt"),
        include_str!("../systems/classics/reimer3.txt"),
        include_str!("../systems/classics/trinks.txt"),
        include_str!("../systems/classics/wright.txt"),
    ];
    let systems = texts.map(|text| {
        let source = Source::read(text).unwrap();
        let system = source.system(source.names()).unwrap();
        (system.ring, system.equations)
    });
    compare(&systems);
}
