-- |
-- Module      : Heddle.Json.Decode
-- Description : Decoders of JSON, without an intermediate tree
-- Stability   : stable
--
-- A 'Decoder' reads one JSON value straight from the bytes into the program's type. Skipped values are
-- checked, too: structure, UTF-8, escapes, numbers, depth.
--
-- Cost: about a nanosecond for each byte of keys and numbers, less for strings; the result's memory.
-- Owner: decoders are values; the thread that decodes owns nothing else.
module Heddle.Json.Decode
  ( -- * Decoding
    decode,
    decodeAt,
    Decoder,
    Limits (..),
    defaultLimits,
    Duplicates (..),
    NonFinite (..),
    Malformed (..),

    -- * Strings

    -- | Each refuses invalid UTF-8 and halves of surrogate pairs.
    text,
    utf8,
    shortText,
    byteString,
    shortByteString,
    string,
    char,

    -- * Numbers

    -- | Each refuses a number that its type cannot represent; @1.0@ and @1e2@ are integers.
    int,
    int8,
    int16,
    int32,
    int64,
    word,
    word8,
    word16,
    word32,
    word64,
    integer,
    natural,
    double,
    float,
    anyDouble,
    anyFloat,
    decimal,
    number,

    -- * Other values
    bool,
    null_,
    skip,
    raw,

    -- * Records

    -- | > data User = User {name :: Text, age :: Maybe Int}
    --   >
    --   > user :: Decoder User
    --   > user = record (User <$> required "name" text <*> optional "age" int)
    --
    -- Define decoders of records without arguments, so that their tables are built once.
    Fields,
    Key,
    newKey,
    record,
    recordWith,
    Unknown (..),
    required,
    optional,
    withDefault,
    defaulting,

    -- * Arrays and maps
    list,
    foldElements,
    nonEmpty,
    sequenceOf,
    setOf,
    primArray,
    pairOf,
    tripleOf,
    Elements,
    element,
    tupleOf,
    FromKey (..),
    textMap,
    mapOf,
    foldMembers,

    -- * Choices
    nullable,
    eitherOf,
    Kind (..),
    kind,
    byKind,
    oneOf,
    tagged,
    singleKey,
    twoElements,
    refine,

    -- * Element by element
    decodeElements,
  )
where

import Data.ByteString (ByteString)
import Heddle.Json.Internal.Array
import Heddle.Json.Internal.Decoder
import Heddle.Json.Internal.Key (Key, newKey)
import Heddle.Json.Internal.Object
import Heddle.Json.Internal.Record (Fields, Unknown (..), field, recordFrom)
import Heddle.Json.Internal.Scalar
import Heddle.Json.Malformed
import Heddle.Json.Options
import Heddle.Prim.Cpu (Level, level, levelCode)

-- | Decode a text, which is one value, with white space around it or not.
--
-- [Cost]: the decoder's; linear in the text.
--
-- >>> decode defaultLimits (list int) "[1, 2, 3]"
-- Right [1,2,3]
--
-- >>> decode defaultLimits (list int) "[1, 2.5]"
-- Left (Malformed {malformedOffset = 4, malformedPath = [InElement 1], malformedReason = WrongKind "an integer" "a number with a fraction"})
decode :: Limits -> Decoder a -> ByteString -> Either Malformed a
decode = decodeAt level

-- | As 'decode', with this instruction set, for tests.
--
-- [Cost]: as 'decode'.
decodeAt :: Level -> Limits -> Decoder a -> ByteString -> Either Malformed a
decodeAt at = runPure (levelCode at)

-- | Run an action with a state on the elements of an array, one by one, without keeping them. The action has
-- run on all elements before a malformed one.
--
-- [Cost]: constant memory besides the state.
-- [Blocks]: as the action does.
decodeElements :: Limits -> Decoder a -> (state -> a -> IO state) -> state -> ByteString -> IO (Either Malformed state)
decodeElements limits d act start = runText (levelCode level) limits (elementsIO act start d)

-- | An object with these fields, in any order. Other keys are skipped.
--
-- [Cost]: for keys in this order, a comparison for each eight bytes; otherwise a table lookup.
record :: Fields a -> Decoder a
record = recordFrom SkipUnknown
{-# INLINE record #-}

-- | As 'record', with a policy for other keys.
--
-- [Cost]: as 'record'.
recordWith :: Unknown -> Fields a -> Decoder a
recordWith = recordFrom
{-# INLINE recordWith #-}

-- | A key that the object must have. All keys of a record must be different.
required :: Key -> Decoder a -> Fields a
required key d = field key d Nothing
{-# INLINE required #-}

-- | 'Nothing' if the key is missing or its value is null.
optional :: Key -> Decoder a -> Fields (Maybe a)
optional key d = field key (nullable d) (Just Nothing)
{-# INLINE optional #-}

-- | A key with a default for objects that lack it.
withDefault :: Key -> a -> Decoder a -> Fields a
withDefault key x d = field key d (Just x)
{-# INLINE withDefault #-}

-- | As 'withDefault' for 'Just', as 'required' for 'Nothing'.
defaulting :: Key -> Maybe a -> Decoder a -> Fields a
defaulting key missing d = field key d missing
{-# INLINE defaulting #-}
