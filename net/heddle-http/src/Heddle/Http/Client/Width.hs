-- |
-- Module      : Heddle.Http.Client.Width
-- Description : How many connections a server has been seen to serve at once
-- Stability   : hidden; "Heddle.Http.Client" uses it
--
-- Some servers serve one connection after the other, or have a process for each connection and few processes. To such a server a
-- connection that is kept unused is one that it waits at, while the system has accepted others that the server has not taken up: a request
-- on one of these waits until the unused connection closes.
--
-- So a client counts, for each origin, the connections that have answered and are open, and the most that there were at a time: its
-- width. A connection beyond the width may not be taken up. Instead of opening one, the client uses an unused connection of another
-- capability; and while a request on a new connection hears nothing for some time, unused connections are closed, and those that come
-- back. Within the width, which a server of many connections widens by its first answers, nothing of this happens
-- until the silence is long.
--
-- Invariant: an origin is in the map as long as a connection to it that has answered is open, or a request waits.
-- Cost: a change of a map when a connection gives its first answer and when it closes; a load when one is returned.
-- Owner: any thread.
-- Shared writes per request: 0 on a kept connection.
module Heddle.Http.Client.Width
  ( Widths,
    newWidths,
    answered,
    ended,
    narrowed,
    isFull,
    waitBegins,
    waitEnds,
    isAwaited,
  )
where

import Control.Monad (void)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Heddle.Prim.Atomic (Ref, Words, atomicRead, fetchAdd, modifyRef, newRef, newWords, readRef)

-- | The widths of origins @o@.
data Widths o = Widths
  { widthsOf :: !(Ref (Map o Width)),
    -- | Word 0: how many requests wait, at all origins.
    widthsWaiting :: !Words
  }

-- How many connections that have answered are open, how many there were at most, and how many requests wait on connections that may not have
-- been taken up.
data Width = Width !Int !Int !Int

-- | Of no origin yet.
newWidths :: IO (Widths o)
newWidths = Widths <$> newRef Map.empty <*> newWords 1

-- Change an origin's width.
change :: Ord o => Widths o -> o -> (Width -> Width) -> IO ()
change widths origin f = modifyRef (widthsOf widths) $ \all' -> case f (Map.findWithDefault (Width 0 0 0) origin all') of
  Width open _ waiting | open <= 0 && waiting <= 0 -> (Map.delete origin all', ())
  changed -> (Map.insert origin changed all', ())

-- | A connection has given its first answer.
--
-- [Blocks]: never.
answered :: Ord o => Widths o -> o -> IO ()
answered widths origin = change widths origin $ \(Width open most waiting) -> Width (open + 1) (max most (open + 1)) waiting
{-# INLINEABLE answered #-}

-- | A connection that has answered is closed.
--
-- [Blocks]: never.
ended :: Ord o => Widths o -> o -> IO ()
ended widths origin = change widths origin $ \(Width open most waiting) -> Width (open - 1) most waiting
{-# INLINEABLE ended #-}

-- | A connection was not taken up: the server serves no more than those that have answered.
--
-- [Blocks]: never.
narrowed :: Ord o => Widths o -> o -> IO ()
narrowed widths origin = change widths origin $ \(Width open _ waiting) -> Width open open waiting
{-# INLINEABLE narrowed #-}

-- | Whether one more connection would be more than the server has been seen to serve, while it has some.
--
-- [Cost]: a look-up.
isFull :: Ord o => Widths o -> o -> IO Bool
isFull widths origin = maybe False (\(Width open most _) -> open > 0 && open >= most) . Map.lookup origin <$> readRef (widthsOf widths)
{-# INLINEABLE isFull #-}

-- | A request waits on a connection that the server may not have taken up; it waits no more.
--
-- [Blocks]: never.
-- [Masking]: the caller is masked between the two.
waitBegins, waitEnds :: Ord o => Widths o -> o -> IO ()
waitBegins widths origin = do
  change widths origin $ \(Width open most waiting) -> Width open most (waiting + 1)
  void (fetchAdd (widthsWaiting widths) 0 1)
waitEnds widths origin = do
  change widths origin $ \(Width open most waiting) -> Width open most (waiting - 1)
  void (fetchAdd (widthsWaiting widths) 0 (-1))
{-# INLINEABLE waitBegins #-}
{-# INLINEABLE waitEnds #-}

-- | Whether a connection that is being returned shall be closed: the server is full, and a request waits.
--
-- [Cost]: one load if no request waits.
-- [Blocks]: never.
isAwaited :: Ord o => Widths o -> o -> IO Bool
isAwaited widths origin = do
  some <- atomicRead (widthsWaiting widths) 0
  if some <= 0
    then pure False
    else maybe False (\(Width open most waiting) -> waiting > 0 && open >= most) . Map.lookup origin <$> readRef (widthsOf widths)
{-# INLINEABLE isAwaited #-}
