//! The limits of a message.

/// The largest number of fields of a head.
pub const MAX_FIELDS: usize = 100;

/// The limits of a head. A head above one of them is refused.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::HeadLimits;
///
/// let small = HeadLimits { head: 4096, ..HeadLimits::DEFAULT };
/// assert_eq!(small.start_line, HeadLimits::DEFAULT.start_line);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// The most bytes of the request line or status line, without its line end.
    pub start_line: u16,
    /// The most bytes of the head, with the empty line at its end.
    pub head: u16,
    /// The most fields; at most [`MAX_FIELDS`] count.
    pub fields: u8,
}

impl HeadLimits {
    /// 8 KiB for the start line, 32 KiB for the head, and [`MAX_FIELDS`] fields.
    pub const DEFAULT: Self = Self {
        start_line: 8 * 1024,
        head: 32 * 1024,
        fields: MAX_FIELDS as u8,
    };
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The limits of a body. A body above one of them is refused.
///
/// # Examples
///
/// ```
/// use tidegate_http::codec::BodyLimits;
///
/// let upload = BodyLimits { body: 10 << 20, ..BodyLimits::DEFAULT };
/// assert_eq!(upload.trailers, BodyLimits::DEFAULT.trailers);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// The most bytes of data, without the chunks' own lines.
    pub body: u64,
    /// The most bytes of the trailer section, with the empty line at its end.
    pub trailers: u16,
    /// The most bytes of all chunk extensions of one body.
    pub extensions: u32,
}

impl BodyLimits {
    /// No limit of the data, 8 KiB of trailers, 16 KiB of chunk extensions.
    pub const DEFAULT: Self = Self {
        body: u64::MAX,
        trailers: 8 * 1024,
        extensions: 16 * 1024,
    };
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
