//! How often a task is tried.

/// How often a task is tried again that has failed.
///
/// ```
/// use syncline_farm::retries::Retries;
///
/// let retries = Retries::new(2);
/// assert!(retries.allow(1) && retries.allow(2) && !retries.allow(3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries(u32);

impl Retries {
    /// This often.
    #[must_use]
    pub fn new(retries: u32) -> Retries {
        Retries(retries)
    }

    /// Whether there is another try after this many.
    #[must_use]
    pub fn allow(self, tries: u32) -> bool {
        tries <= self.0
    }
}

impl From<Retries> for u64 {
    fn from(Retries(retries): Retries) -> u64 {
        retries.into()
    }
}
