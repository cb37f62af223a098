//! The irreducible components of chains over Z/p.
//!
//! # Method
//! A member is closed if neither it nor the members of the variables in it contain a free variable.
//! Closed members are factored first, from below: together they are a finite field F_q in each
//! component. Then the other members are factored from below, over the field L of
//! functions of those that precede them, which is algebraic over F_q(free variables).
//!
//! ```text
//!     members            1. closed: F_q              2. the others, from below, over F_q(x, y)
//!     z³ - x y, b² - 2,  ──> a² - 2, b - a  ──┐
//!     a² - 2                 a² - 2, b + a  ──┴────> z³ - x y, over each F_q
//! ```
//!
//! A factor of a member T_v is found in these steps, of which the first one that answers ends the
//! search. S is the set of members whose variables occur in T_v, or in a member of S; members of
//! degree 1 are eliminated.
//!
//! | step                                                    | is enough if                       |
//! |---------------------------------------------------------|------------------------------------|
//! | factor over F_q(free variables), by FLINT               | S is empty; then each factor again |
//! | no member outside S, or degrees without common divisor  | always                             |
//! | factor at random points of L                            | no degree of factors is common     |
//! | factor the norm to F_q(free variables), by the members S| the norm is small; each factor     |
//! | the same, by all members                                | the norm is small                  |
//!
//! # Why that is right
//! *Variables that do not occur.* Let K be the field that S generates, over the free variables that
//! occur. The coefficients of a factor of T_v in L\[v\] are algebraic over K. If no other members
//! are there, L is K(free variables), in which K is algebraically closed; so the factors over K are
//! those over L.
//!
//! *Members that do not occur* can matter, by an element of L that is algebraic over K: v² - 2
//! splits over x² - 2 y², since x/y is a root of 2. But if g is irreducible over K and the degree
//! \[L : K(free variables)\] has no common divisor with deg g, then g is irreducible over L: with a
//! zero v of g of degree e over L, deg g divides \[L(v) : K(free variables)\] = e \[L : K(free
//! variables)\], so deg g <= e.
//!
//! *Points.* Let P be a point at which the members are unramified over the free variables, and no
//! initial vanishes. The local ring of P is étale over a regular one, so it is integrally closed,
//! and a monic factor of g / init(g) over L has coefficients in it (Gauss). So factors over L have
//! factors at P: if no sum of degrees of factors at P but 0 and deg g is one at all points, g is
//! irreducible over L.
//!
//! *Norms* (Trager). The norm N(g) of an irreducible g in L\[v\] to k\[v\], k = F_q(free
//! variables), is a power of an irreducible polynomial: it is the characteristic polynomial of v in
//! the field L\[v\]/(g) over k. If N(T_v) is a product of different irreducible N_i, so each N_i
//! belongs to one factor, gcd(T_v, N_i): if two factors had the same, or one of them occurred
//! twice, N_i² would divide N(T_v). This holds whether or not T_v is separable. To make the norm
//! square-free, v is shifted by a linear form in the variables of the members.
//!
//! # The order of the variables
//! A factor can contain closed variables that are greater than its own. It is then no member of a
//! chain in the order of the ring; but the component is where all factors vanish on the chain that
//! was given, and `partition` finds that part.
//!
//! # Limits
//! A norm is not computed if it may have more than some number of coefficients, by a bound from
//! degrees. If that, or the lack of a shift, ends the search, the component has a [`Doubt`]. There
//! may be no shift if T_v is inseparable, as y^p - x is, or if F_q(free variables) offers too few
//! of them.
//!
//! # Source
//! Trager, "Algebraic factoring and rational function integration" (1976). Changed: finite fields
//! and independent members are left aside, and points of the chain are tried before norms.

mod field;
mod functions;

use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::normal::normalised;
use crate::partition::partition;
use crate::poly::{Level, Poly, Ring};
use crate::regularize::Regularizer;
use field::Field;
use functions::{Functions, MAX_NORM};

/// A chain, and whether it is known to be irreducible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The chain.
    pub chain: Chain,
    /// Whether its variety is irreducible over Z/p; if not, that is not known.
    pub is_prime: bool,
    /// Why that is not known, if it was asked.
    pub doubt: Option<Doubt>,
}

/// The reason why a component is perhaps reducible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Doubt {
    /// No shift of the variable of this level makes the norm of its member square-free.
    Shifts(Level),
    /// The norm of the member of this level is too large.
    Norm(Level),
}

impl Doubt {
    /// Returns the reason in words.
    #[must_use]
    pub fn told(self, ring: &Ring) -> String {
        match self {
            Doubt::Shifts(level) => format!(
                "the norm of the polynomial of {} has multiple factors: it is inseparable, or the \
                 prime is too small",
                ring.name(level)
            ),
            Doubt::Norm(level) => format!(
                "the norm of the polynomial of {} can have more than {MAX_NORM} coefficients",
                ring.name(level)
            ),
        }
    }
}

/// Returns the irreducible components of a regular chain, which is square-free if it is closed.
///
/// # Panics
/// If FLINT fails, which is a fault.
#[must_use]
pub fn primes(chain: &Chain) -> Vec<Component> {
    let Some((_, member)) = chain.members().next() else {
        return vec![Component { chain: chain.clone(), is_prime: true, doubt: None }];
    };
    let work = Work::new(member.ring(), chain);
    let mut found = Vec::new();
    for leaf in work.leaves() {
        match work.open.is_empty() {
            true => found.push(work.component(&leaf.tower, None)),
            false => found.extend(work.components(&leaf)),
        }
    }
    found
}

/// A chain in a ring that has a generator below its variables.
struct Work {
    ring: Ring,
    /// The ring of the chain that was given.
    outer: Ring,
    chain: Chain,
    /// The levels of closed members, and of the others.
    closed: Vec<Level>,
    open: Vec<Level>,
}

/// A finite field of closed members.
struct Leaf {
    field: Field,
    /// The closed members, irreducible in turn.
    tower: Chain,
}

impl Work {
    fn new(outer: &Ring, chain: &Chain) -> Work {
        let mut names = outer.names().to_vec();
        names.push("generator".to_owned());
        let ring = Ring::new(&names, outer.prime()).expect("the prime is that of a ring");
        let levels = (1..=names.len()).collect::<Vec<_>>();
        let mapped = chain.members().map(|(_, member)| member.mapped(&ring, &levels));
        let chain = mapped.fold(Chain::empty(names.len()), |all, member| all.with(member));
        let (mut closed, mut open) = (Vec::new(), Vec::new());
        for (level, member) in chain.members() {
            let is_closed = (1..level).all(|at| member.degree(at) == 0 || closed.contains(&at));
            if is_closed { &mut closed } else { &mut open }.push(level);
        }
        Work { ring, outer: outer.clone(), chain, closed, open }
    }

    fn member(&self, level: Level) -> &Poly {
        self.chain.get(level).expect("a level with a member")
    }

    /// The fields of the closed members.
    fn leaves(&self) -> Vec<Leaf> {
        let empty = Chain::empty(self.ring.variables());
        let mut leaves = vec![Leaf { field: Field::new(&self.ring), tower: empty }];
        for (index, &level) in self.closed.iter().enumerate() {
            // The field need not be known for members of degree 1.
            let rest = &self.closed[index..];
            let simple = rest.iter().all(|&at| self.member(at).degree(at) == 1);
            let member = self.member(level);
            if self.open.is_empty() && simple && member.has_constant_initial() {
                for leaf in &mut leaves {
                    leaf.tower = leaf.tower.with(leaf.tower.remainder(member, level));
                }
                continue;
            }
            leaves = leaves
                .iter()
                .flat_map(|Leaf { field, tower }| {
                    let factors = field.factor(&field.image(member)).into_iter();
                    factors.map(|(factor, _)| {
                        let lifted = tower.remainder(&field.preimage(&factor), level);
                        let tower = tower.with(lifted);
                        let field = field.with_zero(&factor, level, Some(&tower));
                        Leaf { field, tower }
                    })
                })
                .collect();
        }
        leaves
    }

    /// The components over a finite field.
    fn components(&self, leaf: &Leaf) -> Vec<Component> {
        let regularizer = &Regularizer::new(&self.ring);
        let field = &leaf.field;
        let mut found = vec![(Chain::empty(self.ring.variables()), None)];
        for &level in &self.open {
            let member = field.image(self.member(level));
            let mut next = Vec::new();
            for (chain, doubt) in found {
                let (members, doubt) = match doubt {
                    None => Functions { regularizer, field, chain: &chain }.factors(&member, level),
                    Some(_) => (vec![member.clone()], doubt),
                };
                next.extend(members.into_iter().map(|member| (chain.with(member), doubt)));
            }
            found = next;
        }
        let found = found.into_iter();
        found.flat_map(|(chain, doubt)| self.in_order(regularizer, leaf, chain, doubt)).collect()
    }

    /// The component in the order of the ring: see the head of the module.
    fn in_order(
        &self,
        regularizer: &Regularizer,
        leaf: &Leaf,
        mut chain: Chain,
        doubt: Option<Doubt>,
    ) -> Vec<Component> {
        let Leaf { field, tower } = leaf;
        // In normal form, coefficients have no numbers of the field without need.
        let over = field.modulus().map_or_else(|| chain.clone(), |m| chain.with(m.clone()));
        if doubt.is_none()
            && let Ok(normal) = normalised(&over)
        {
            chain = normal;
        }
        let members = self.open.iter().map(|&level| {
            let member = chain.get(level).expect("a level with a member");
            (level, tower.remainder(&field.preimage(member), self.ring.variables()))
        });
        let members = members.collect::<Vec<_>>();
        if members.iter().all(|(level, member)| member.main_level() == *level) {
            let whole =
                members.into_iter().fold(tower.clone(), |all, (_, member)| all.with(member));
            return vec![self.component(&whole, doubt)];
        }
        let given = self.open.iter().fold(tower.clone(), |all, &level| {
            all.with(tower.remainder(self.member(level), level - 1))
        });
        let parts = members.iter().fold(vec![given], |parts, (_, member)| {
            parts.iter().flat_map(|part| partition(regularizer, member, part).0).collect()
        });
        parts.iter().map(|part| self.component(part, doubt)).collect()
    }

    fn component(&self, chain: &Chain, doubt: Option<Doubt>) -> Component {
        let levels = (0..=self.ring.variables()).map(|level| level.saturating_sub(1));
        let levels = levels.collect::<Vec<_>>();
        let empty = Chain::empty(self.outer.variables());
        let chain = chain
            .members()
            .fold(empty, |all, (_, member)| all.with(member.mapped(&self.outer, &levels)));
        Component { chain, is_prime: doubt.is_none(), doubt }
    }
}
