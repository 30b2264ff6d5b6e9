{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.ReplyCheck
-- Description : Replies that can be sent
-- Stability   : internal, exempt from the version policy
--
-- Each reply of a handler is looked at once before it is sent, with either protocol.
--
-- Cost: O(bytes of the headers); nothing is allocated for a reply that can be sent as it is.
-- Owner: values.
module Heddle.Http.ReplyCheck
  ( Checked (..),
    checkReply,
  )
where

import Control.Monad (unless)
import Data.ByteString qualified as B
import Data.ByteString.Builder (toLazyByteString)
import Data.ByteString.Lazy qualified as L
import Heddle.Http.Exception (UnsendableReply (..))
import Heddle.Http.Reply
import Heddle.Http.Status
import Heddle.Prim.Exception (SomeException, throwIO, toException)

-- | What becomes of a reply.
data Checked
  = -- | It can be sent.
    Sound
  | -- | What this makes is sent instead, and the flag says that the connection shall close afterwards. It may run a part of the
    -- handler.
    Amended !(IO Reply) !Bool
  | -- | It cannot be sent.
    Unsound !SomeException

-- | Look at a reply.
--
-- [Cost]: O(bytes of its headers and number of its segments).
checkReply :: Reply -> Checked
checkReply = \case
  Ready _ -> Sound
  Replied _ -> Sound
  Copied status _ content -> maybe Sound unsendable (statusFault status (B.length content))
  Whole status given content -> with status (B.length content) given (\fields -> Whole status fields content)
  Segments status given parts release -> case filter (< 0) (concatMap numbers parts) of
    n : _ -> unsendable (NegativeLength n)
    [] -> with status (sum (map segmentLength parts)) given (\fields -> Segments status fields parts release)
  Stream status given body
    | statusCode status == 205 -> empty status given (body refusing)
    | otherwise -> with status 0 given (\fields -> Stream status fields body)
  Built status given builder
    | statusCode status == 205 -> empty status given (unless (L.null (toLazyByteString builder)) refuse)
    | otherwise -> with status 0 given (\fields -> Built status fields builder)
  BuiltOf status given n builder -> with status n given (\fields -> BuiltOf status fields n builder)
  StreamOf status given n body -> with status n given (\fields -> StreamOf status fields n body)
  Tunnel Nothing _ -> Sound
  Tunnel (Just (status, given)) act
    -- The engine writes Connection: Upgrade.
    | status == status101 -> with status200 0 given (\fields -> Tunnel (Just (status, [one | one@(Header name _) <- fields, not (name `isNamed` "connection")])) act)
    | otherwise -> with status 0 given (\fields -> Tunnel (Just (status, fields)) act)
  where
    numbers = \case
      SegmentBytes _ -> []
      SegmentFile _ offset n -> [fromIntegral offset, n]
    with status n given rebuilt = case statusFault status n of
      Just fault -> unsendable fault
      Nothing -> case checkHeaders given of
        HeadersFine -> Sound
        HeaderUnsafe one -> Unsound (toException (UnsafeHeader one))
        HeadersFrame -> let (fields, closes) = withoutFraming given in Amended (pure (rebuilt fields)) closes
    {-# INLINE with #-}
    -- Status 205 announces that there is no content, so what writes it is run before.
    empty status given run = case checkHeaders given of
      HeaderUnsafe one -> Unsound (toException (UnsafeHeader one))
      _ -> let (fields, closes) = withoutFraming given in Amended (Whole status fields "" <$ run) closes
{-# NOINLINE checkReply #-}

unsendable :: UnsendableReply -> Checked
unsendable = Unsound . toException

refuse :: IO a
refuse = throwIO (ContentForbidden 205)

-- Of content that must be empty.
refusing :: Writer
refusing =
  Writer
    { writerPut = \bytes -> unless (B.null bytes) refuse,
      writerBuild = \builder -> unless (L.null (toLazyByteString builder)) refuse,
      writerFlush = pure (),
      writerTrailers = \_ -> pure (),
      writerOffer = \bytes -> if B.null bytes then pure 0 else refuse,
      writerTryFlush = pure True
    }
