{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Conditional
-- Description : Entity tags, and requests that depend on them
-- Stability   : stable
--
-- Decides whether a conditional request proceeds. A precondition that cannot be
-- read never lets a change happen and never withholds content: see 'evaluate'.
--
-- Everything here is pure; 'Heddle.Http.Borrowed.preconditions' reads those of a request.
module Heddle.Http.Conditional
  ( -- * Entity tags
    ETag (..),
    renderETag,
    parseETag,
    strongMatch,
    weakMatch,
    ETagSet (..),
    parseETagSet,

    -- * Preconditions
    Preconditions (..),
    noPreconditions,

    -- * Evaluation
    Validators (..),
    Outcome (..),
    evaluate,
    ifRangeHolds,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Int (Int64)
import Data.Maybe (isJust, isNothing)
import Data.Word (Word8)
import Heddle.Bytes.HttpDate (parseHttpDate)
import Heddle.Http.Names (MethodCode (..))
import Heddle.Http.Scan (isBlank)
import Heddle.Prim.Clock (EpochSeconds (..))

-- | A validator of a representation.
--
-- [Source]: RFC 9110, section 8.8.3.
data ETag = ETag
  { -- | Equal weak tags promise equivalent content, not equal bytes.
    etagIsWeak :: !Bool,
    -- | What stands between the quotes.
    etagOpaque :: !ByteString
  }
  deriving stock (Eq, Show)

-- | The tag as a header spells it.
--
-- >>> renderETag (ETag True "a1")
-- "W/\"a1\""
--
-- [Cost]: O(length).
--
-- @since 0.1.0.0
renderETag :: ETag -> ByteString
renderETag (ETag weak opaque) = B.concat [if weak then "W/\"" else "\"", opaque, "\""]

-- | Read a header's value that is one tag and nothing else.
--
-- Law (@inverse@): @parseETag . renderETag@ is 'Just' for every tag that has no
-- quote, space or control character between its quotes.
--
-- [Cost]: O(length).
-- [Source]: RFC 9110, section 8.8.3.
--
-- @since 0.1.0.0
parseETag :: ByteString -> Maybe ETag
parseETag value = case tagPrefix value of
  Just (tag, rest) | B.null rest -> Just tag
  _ -> Nothing

-- | A tag at the start of some bytes, and what follows it.
tagPrefix :: ByteString -> Maybe (ETag, ByteString)
tagPrefix value
  | Just opened <- B.stripPrefix "W/\"" value = close True opened
  | Just opened <- B.stripPrefix "\"" value = close False opened
  | otherwise = Nothing
  where
    close weak opened = case B.span isTagByte opened of
      (opaque, rest) | "\"" `B.isPrefixOf` rest -> Just (ETag weak opaque, B.drop 1 rest)
      _ -> Nothing

-- | A byte that may stand between the quotes.
isTagByte :: Word8 -> Bool
isTagByte byte = byte == 0x21 || (byte >= 0x23 && byte /= 0x7F)

-- | Strong comparison: equal, and neither is weak.
--
-- [Cost]: O(length).
-- [Source]: RFC 9110, section 8.8.3.2.
--
-- @since 0.1.0.0
strongMatch :: ETag -> ETag -> Bool
strongMatch a b = not (etagIsWeak a) && not (etagIsWeak b) && etagOpaque a == etagOpaque b

-- | Weak comparison: equal, whether weak or not.
--
-- [Cost]: O(length).
-- [Source]: RFC 9110, section 8.8.3.2.
--
-- @since 0.1.0.0
weakMatch :: ETag -> ETag -> Bool
weakMatch a b = etagOpaque a == etagOpaque b

-- | What If-Match and If-None-Match name.
data ETagSet
  = -- | @*@: any current representation.
    AnyETag
  | -- | One of these.
    ETags [ETag]
  deriving stock (Eq, Show)

-- | Read @*@ or a list of at least one tag; empty list elements are skipped.
--
-- >>> parseETagSet "\"a\", W/\"b\""
-- Just (ETags [ETag {etagIsWeak = False, etagOpaque = "a"},ETag {etagIsWeak = True, etagOpaque = "b"}])
--
-- [Cost]: O(length).
-- [Source]: RFC 9110, sections 13.1.1 and 13.1.2.
--
-- @since 0.1.0.0
parseETagSet :: ByteString -> Maybe ETagSet
parseETagSet value
  | value == "*" = Just AnyETag
  | otherwise = element (skip value)
  where
    -- At the start of an element, behind a comma or at the very start.
    element rest
      | B.null rest = Nothing
      | otherwise = do
        (tag, after) <- tagPrefix rest
        let following = B.dropWhile isBlank after
        case B.uncons following of
          Nothing -> Just (ETags [tag])
          Just (0x2C, _)
            | B.null (skip following) -> Just (ETags [tag])
            | otherwise -> add tag <$> element (skip following)
          _ -> Nothing

    add tag = \case
      ETags tags -> ETags (tag : tags)
      AnyETag -> AnyETag

    skip = B.dropWhile (\byte -> isBlank byte || byte == 0x2C)

-- | The conditional headers of a request, as they were written; a header on
-- several lines is joined by commas.
data Preconditions = Preconditions
  { ifMatch :: !(Maybe ByteString),
    ifNoneMatch :: !(Maybe ByteString),
    ifModifiedSince :: !(Maybe ByteString),
    ifUnmodifiedSince :: !(Maybe ByteString),
    -- | Read by 'ifRangeHolds'; 'evaluate' ignores it.
    ifRange :: !(Maybe ByteString)
  }
  deriving stock (Eq, Show)

-- | A request without conditions.
--
-- [Cost]: none.
--
-- @since 0.1.0.0
noPreconditions :: Preconditions
noPreconditions = Preconditions Nothing Nothing Nothing Nothing Nothing

-- | What identifies the current representation.
data Validators = Validators
  { currentETag :: !(Maybe ETag),
    -- | What Last-Modified says.
    currentModified :: !(Maybe EpochSeconds)
  }
  deriving stock (Eq, Show)

-- | What becomes of a conditional request.
data Outcome
  = -- | As if there were no conditions.
    Proceed
  | -- | Answer 304.
    NotModified
  | -- | Answer 412.
    PreconditionFailed
  deriving stock (Bounded, Enum, Eq, Show)

-- | Evaluate the preconditions of a request against the current representation,
-- 'Nothing' if there is none, in the order that HTTP prescribes.
--
-- What cannot be read is resolved to the safe side: an unreadable If-Match is
-- false; an unreadable If-None-Match is true for GET and HEAD, so that content is
-- sent, and false otherwise, so that nothing is changed; an unreadable date is
-- ignored, as HTTP prescribes.
--
-- >>> evaluate MethodGet (Just (Validators (Just (ETag False "a")) Nothing)) noPreconditions {ifNoneMatch = Just "W/\"a\""}
-- NotModified
--
-- [Cost]: O(length of the headers).
-- [Source]: RFC 9110, sections 13.1 and 13.2.2, steps 1 to 4.
--
-- @since 0.1.0.0
evaluate :: MethodCode -> Maybe Validators -> Preconditions -> Outcome
evaluate method current conditions = first
  where
    reading = method == MethodGet || method == MethodHead
    tagOf = current >>= currentETag
    modified = current >>= currentModified

    first = case ifMatch conditions of
      Just value -> if matches value then third else PreconditionFailed
      Nothing -> second

    second = case (ifUnmodifiedSince conditions >>= parseHttpDate, modified) of
      (Just date, Just changed) | changed > date -> PreconditionFailed
      _ -> third

    third = case ifNoneMatch conditions of
      Just value
        | noneMatches value -> Proceed
        | reading -> NotModified
        | otherwise -> PreconditionFailed
      Nothing -> fourth

    fourth = case (ifModifiedSince conditions >>= parseHttpDate, modified) of
      (Just date, Just changed) | reading, changed <= date -> NotModified
      _ -> Proceed

    matches value = case parseETagSet value of
      Just AnyETag -> isJust current
      Just (ETags tags) -> maybe False (\tag -> any (strongMatch tag) tags) tagOf
      Nothing -> False

    noneMatches value = case parseETagSet value of
      Just AnyETag -> isNothing current
      Just (ETags tags) -> maybe True (\tag -> not (any (weakMatch tag) tags)) tagOf
      Nothing -> reading

-- | Whether If-Range, given its value and the current time, lets a Range header
-- count. A tag must match strongly. A date must equal Last-Modified exactly, and
-- that must be a strong validator: at least a second older than the present.
--
-- [Cost]: O(length).
-- [Source]: RFC 9110, sections 8.8.2.2, 13.1.5 and 13.2.2, step 5.
--
-- @since 0.1.0.0
ifRangeHolds :: EpochSeconds -> Validators -> ByteString -> Bool
ifRangeHolds now current value = case parseETag value of
  Just tag -> maybe False (strongMatch tag) (currentETag current)
  Nothing -> case (parseHttpDate value, currentModified current) of
    (Just date, Just changed) -> date == changed && seconds changed < seconds now
    _ -> False
  where
    seconds :: EpochSeconds -> Int64
    seconds (EpochSeconds s) = s
