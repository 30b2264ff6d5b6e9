-- |
-- Module      : Heddle.Json
-- Description : JSON to types and back
-- Stability   : stable
--
-- Types become JSON and JSON becomes types without a tree in between:
--
-- > data Person = Person {name :: !Text, age :: !(Maybe Int)}
-- >   deriving stock (Generic)
-- >   deriving anyclass (ToJson, FromJson)
-- >
-- > toByteString (encodeJson (Person "Zoë" Nothing))      -- {"name":"Zoë","age":null}
-- > decodeJson "{\"name\": \"Zoë\"}" :: Either Malformed Person
--
-- For forms that the classes do not derive, write encoders with "Heddle.Json.Build" and decoders with
-- "Heddle.Json.Decode"; import both qualified, since they share names. "Heddle.Json.Stream" decodes
-- input larger than memory, "Heddle.Json.Check" validates and reformats.
--
-- Cost: linear in the bytes.
-- Owner: values.
module Heddle.Json
  ( -- * Encoding
    ToJson (..),
    encodeJson,
    encodeJsonWith,
    toByteString,
    ToKey (..),
    Build,
    encode,

    -- * Decoding
    FromJson (..),
    decodeJson,
    FromKey (..),
    Decoder,
    decode,
    Limits (..),
    defaultLimits,
    Duplicates (..),
    NonFinite (..),

    -- * Errors
    Malformed (..),
    Step (..),
    Reason (..),
    showPath,
    showReason,
    lineAndColumn,

    -- * Deriving with other names
    genericToJson,
    genericFromJson,
    Options (..),
    defaultOptions,
    Sum (..),
  )
where

import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build (Build, encode)
import Heddle.Json.Decode
import Heddle.Json.Encode (ToJson (..), ToKey (..), encodeJson, encodeJsonWith, genericToJson)
import Heddle.Json.FromJson
import Heddle.Json.Malformed
