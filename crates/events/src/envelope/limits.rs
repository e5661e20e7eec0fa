//! How large an envelope may be. What is larger is refused with `ingest.limit-exceeded`.

/// Bytes of a request; the server refuses larger ones before they are read (413).
pub const MAX_BODY_BYTES: usize = 16 << 20;

/// Envelopes of a batch (413).
pub const MAX_BATCH_ITEMS: usize = 10_000;

pub const MAX_SERVICE_BYTES: usize = 128;

pub const MAX_TYPE_BYTES: usize = 256;

/// Keys on the way to an attribute, whether they are nested or dotted.
pub const MAX_ATTRIBUTE_DEPTH: usize = 8;

/// Attributes of one event.
pub const MAX_LEAVES: usize = 512;

/// Elements of a list, those of lists and objects in it included.
pub const MAX_LIST_ELEMENTS: usize = 4_096;

/// Events within an event, those within them included: few bytes must not become many events.
pub const MAX_NESTED_EVENTS: usize = 64;

/// A text: an attribute, a message, a correlation id.
pub const MAX_STRING_BYTES: usize = 32 << 10;

/// The path of an attribute.
pub const MAX_PATH_BYTES: usize = 1 << 10;

/// `resource`, `links`: kept as they are.
pub const MAX_KEPT_BYTES: usize = 64 << 10;

/// An outcome is a dimension of every type, so it is a word and not a message.
pub const MAX_OUTCOME_BYTES: usize = 128;

/// Objects and arrays of a request, one within the other. Far more than any envelope within the
/// other limits has; what is deeper is not read on, as reading takes stack.
pub(super) const MAX_JSON_DEPTH: usize = 256;
