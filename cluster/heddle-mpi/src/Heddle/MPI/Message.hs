-- |
-- Module      : Heddle.MPI.Message
-- Description : Any value as one message
-- Stability   : stable
--
-- 'Message' is the class of the values that can be sent. Byte strings and vectors of at
-- least 4,096 bytes are copied neither by the sender nor by the receiver, which gets slices
-- of the buffer that the message arrived in. The buffer lives as long as any of its slices.
--
-- Invariant: decoding is total. For bytes that are not a message of the type it reports what
-- was expected, and at which byte; it never allocates more than a multiple of their number.
-- Owner: the program must not change memory that a sent or received value refers to.
-- Cost: a number needs one allocation of pinned memory; the rest is linear. No system call.
module Heddle.MPI.Message
  ( -- * Messages

    -- | The layout is in Note [Layout].
    Message (..),
    Codec,

    -- * Codecs of user-defined types
    genericCodec,
    mapCodec,
    checkedCodec,

    -- * Types of other libraries
    Serialized (..),
    AsBinary (..),
  )
where

import Heddle.MPI.Internal.Message.Class
import Heddle.MPI.Internal.Message.Codec (Codec, checkedCodec, mapCodec)

-- Note [Layout]
-- ~~~~~~~~~~~~~
-- Everything is little endian and of fixed width, as it is in memory on x86-64.
--
--   bytes 0 to 3   the length of the header, without these eight bytes
--   bytes 4 to 7   the format mark, the letters HMP1
--   the header     the value
--   the parts      each at the next multiple of 16; what is between them is padding
--
-- In the header:
--
--   Int, Word                 8 bytes; the others as many as they have
--   Bool                      1 byte, 0 or 1
--   Char                      4 bytes, the code point
--   Integer, Natural          see Heddle.MPI.Internal.Message.Scalars
--   one constructor           its fields, one after the other, without padding
--   several constructors      the number of the constructor, from 0, in 1 byte (2 if there
--                             are more than 256); then its fields
--   lists and the like        8 bytes, the number of elements; then these (a type that
--                             takes no bytes is padded to 1). Maps: pairs, ascending
--   runs of bytes             8 bytes, the length; then the bytes. With the highest bit
--                             of the length set, the bytes are the next part instead
--
-- Runs of bytes are byte strings; storable, primitive and (of numbers) unboxed vectors;
-- arrays of Data.Primitive; texts (UTF-16). Those of 4,096 bytes and more are parts, except
-- short byte strings and texts, which are never pinned and have to be copied anyway. The
-- output of another library (Serialized, AsBinary) is a run. Inside another value it is a
-- part even if it is small, because its length is known only after measuring.
