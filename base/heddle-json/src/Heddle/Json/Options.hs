-- |
-- Module      : Heddle.Json.Options
-- Description : Limits of decoding, and how types become JSON
-- Stability   : stable
--
-- Records of settings, with defaults for untrusted input.
--
-- Cost: none.
-- Owner: values.
module Heddle.Json.Options
  ( -- * Limits
    Limits (..),
    defaultLimits,
    Duplicates (..),
    NonFinite (..),

    -- * Derived instances
    Options (..),
    defaultOptions,
    Sum (..),
  )
where

-- | Limits on what a decoder accepts.
data Limits = Limits
  { -- | The deepest nesting of arrays and objects.
    limitDepth :: !Int,
    -- | The most characters of a number; decoders never accept more than 32,767.
    limitNumber :: !Int,
    -- | The greatest magnitude of an exponent of ten for which an 'Integer' is made.
    limitExponent :: !Int,
    -- | The most bytes of the whole text.
    limitSize :: !Int,
    -- | The policy for duplicate keys.
    limitDuplicates :: !Duplicates,
    -- | What the instances of 'Double' and 'Float' read as an infinity or NaN.
    limitNonFinite :: !NonFinite
  }
  deriving stock (Eq, Show)

-- | The policy for duplicate keys. It applies to the keys that a decoder asks for and to all keys of a map;
-- values that are skipped are not examined.
data Duplicates
  = -- | An error.
    DuplicatesRefused
  | -- | The first one counts.
    DuplicatesFirst
  | -- | The last one counts, as in JavaScript and Python.
    DuplicatesLast
  deriving stock (Bounded, Enum, Eq, Show)

-- | The form of infinities and NaN, for which JSON has no number. What 'Heddle.Json.Encode.encodeJsonWith' writes
-- under a policy, an instance of 'Double' or 'Float' reads under the same policy in 'limitNonFinite'.
data NonFinite
  = -- | All are written as @null@, and @null@ is read as NaN. The default, as in JavaScript. An infinity does not
    -- survive, and @null@ in a @Maybe Double@ is 'Nothing'.
    NonFiniteNull
  | -- | The strings @\"NaN\"@, @\"Infinity\"@ and @\"-Infinity\"@, as in Protocol Buffers: every value survives. @null@
    -- is refused.
    NonFiniteStrings
  | -- | They are written as @null@, and nothing but a number is read: for readers that cannot use NaN.
    NonFiniteRefused
  deriving stock (Bounded, Enum, Eq, Show)

-- | 512 levels, numbers of 1,024 characters, exponents to 1,024, 1 GiB, no duplicates, @null@ for NaN.
defaultLimits :: Limits
defaultLimits =
  Limits
    { limitDepth = 512,
      limitNumber = 1024,
      limitExponent = 1024,
      limitSize = 1073741824,
      limitDuplicates = DuplicatesRefused,
      limitNonFinite = NonFiniteNull
    }

-- | How a data type becomes JSON. A record is an object. A constructor with several unnamed fields is an array, one
-- with a single field is that field, one without fields is @[]@, as in aeson. Decoding what has been encoded with the
-- same options gives the same value, but for
--
-- * infinities and NaN under 'NonFiniteNull', which become @null@;
-- * 'Maybe' of a type that itself writes @null@, such as @Maybe (Maybe a)@: @Just Nothing@ is @null@, too, and is read as
--   'Nothing';
-- * halves of surrogate pairs in a 'String', which become U+FFFD;
-- * constructors that 'Untagged' cannot tell apart: the first that fits is read.
--
-- A field with the key that 'TaggedObject' has for the tag gives the object this key twice. It is read again, but not under
-- 'DuplicatesLast', and other readers may refuse it or take it otherwise (RFC 8259, section 4): 'optionField' can give the
-- field another key.
data Options = Options
  { -- | From a field's name to a key.
    optionField :: String -> String,
    -- | From a constructor's name to a string or key.
    optionConstructor :: String -> String,
    -- | How to tell the constructors of a type apart, if it has several.
    optionSum :: !Sum,
    -- | Whether constructors are strings if none of the type has a field.
    optionEnumerations :: !Bool,
    -- | Whether fields that are 'Nothing' are left out: those of a type 'Maybe', of a type @f a@ where @f@ is 'Maybe', and
    -- of other types by 'Heddle.Json.Encode.isMissing'. A missing field is read as 'Nothing' in any case
    -- ('Heddle.Json.FromJson.missing').
    optionOmitNothing :: !Bool,
    -- | Whether keys that the record does not have are an error.
    optionRefuseUnknown :: !Bool
  }

-- | How to tell constructors apart.
data Sum
  = -- | @{"tag": "Circle", "radius": 1}@ for a record, @{"tag": "Circle", "contents": 1}@ for another constructor.
    -- The names of both keys.
    TaggedObject !String !String
  | -- | @{"Circle": {"radius": 1}}@.
    SingleKey
  | -- | @["Circle", {"radius": 1}]@.
    TwoElements
  | -- | The contents alone; the first constructor whose decoder accepts them is chosen. Each failed attempt reads the
    -- contents, so decoding a type that contains itself can take time exponential in the nesting depth. Do not use it
    -- for such types unless 'limitDepth' is small.
    Untagged
  deriving stock (Eq, Show)

-- | As aeson's: names unchanged, constructors by @tag@ and @contents@, enumerations as strings.
defaultOptions :: Options
defaultOptions =
  Options
    { optionField = id,
      optionConstructor = id,
      optionSum = TaggedObject "tag" "contents",
      optionEnumerations = True,
      optionOmitNothing = False,
      optionRefuseUnknown = False
    }
