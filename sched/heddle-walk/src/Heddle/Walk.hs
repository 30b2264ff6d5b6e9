-- |
-- Module      : Heddle.Walk
-- Description : Directory trees, walked on all cores
-- Stability   : stable
--
-- Calls a visitor for every entry of some directory trees, on several cores at once, and
-- writes what visitors append to an output: in whichever order is fastest, or as a
-- sequential, sorted walk would, at nearly the same speed.
--
-- @
-- -- Every Haskell module below the working directory, sorted.
-- main :: IO ()
-- main = do
--   result \<- walkOrdered defaultWalkOptions ["."] $ \\entry -> do
--     name \<- entryNameBytes entry
--     when (".hs" \`isSuffixOf\` name) (putPath entry 10)
--     pure Descend
--   when (walkFailed result) exitFailure
-- @
--
-- Names are bytes. Links are not followed unless the options say so. Directories are opened
-- relative to their parents: paths may be longer than the kernel's limit, and descriptors
-- fewer than the tree is deep. Entries that vanish meanwhile are left out, unless the options
-- say otherwise.
--
-- The walk runs on the pool of "Heddle.Par.IO": a program that calls
-- 'Heddle.Prim.Thread.setCapabilities' 1 walks sequentially.
--
-- Cost: 10 ns for each entry and 2 microseconds for each directory, besides the kernel's;
-- 135 KiB for each core.
-- Owner: a walk owns its descriptors; none outlives the call, whichever way it ends.
module Heddle.Walk
  ( -- * Walking
    walk,
    walkOrdered,
    findFirst,
    WalkResult (..),
    Found (..),

    -- * Options
    WalkOptions (..),
    defaultWalkOptions,
    Follow (..),
    Order (..),
    OnError (..),
    WalkError (..),
    RawPath,

    -- * Visitors

    -- | An 'Entry' shows a directory entry while the visitor runs, to that thread only.
    Visitor,
    WalkControl (..),
    Entry,
    entryNameBytes,
    entryPath,
    entryDepth,
    entryKind,
    entryInode,
    entryStatus,
    Status (..),

    -- * Kinds
    Kind,
    kindUnknown,
    kindFile,
    kindDirectory,
    kindLink,
    kindFifo,
    kindSocket,
    kindCharacter,
    kindBlock,

    -- * Output

    -- | What one call of a visitor appends stays together.
    putPath,
    putByteString,
    putByte,
    flushOutput,
    reportErrno,
    reportText,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Internal qualified as ByteString (create)
import Heddle.Prim.Exception (throwIO)
import Heddle.Walk.Internal.Cursor (moveBytes)
import Heddle.Walk.Internal.Engine (WalkResult (..), runWalk)
import Heddle.Walk.Internal.Entry
import Heddle.Walk.Internal.Options
import Heddle.Walk.Internal.Output (Found (..))

-- | Walk trees in any order.
--
-- [Cost]: see the module's header.
-- [Blocks]: parks until the walk is over; workers hold an OS thread while the disk is slow.
-- [Masking]: interruptible; an asynchronous exception ends the walk first.
-- [Throws]: what a visitor throws, the leftmost if several do; the walk has ended by then.
-- [Threads]: any; the visitor runs on several at once.
walk :: WalkOptions -> [RawPath] -> Visitor -> IO WalkResult
walk options = runWalk options {walkOrder = AnyOrder}

-- | Walk trees so that the output, messages included, is that of a sequential walk that
-- sorts each directory by the bytes of its names. Visitors still run in parallel, in any
-- order; 'flushOutput' waits until everything to the left is written.
--
-- [Cost]: as 'walk', and the sorting; at most 'walkBacklog' bytes are held back.
-- [Blocks]: as 'walk'.
-- [Throws]: as 'walk'.
-- [Threads]: as 'walk'.
walkOrdered :: WalkOptions -> [RawPath] -> Visitor -> IO WalkResult
walkOrdered options = runWalk options {walkOrder = Sorted}

-- | The first path, in sorted order, of which a predicate holds: the answer of the
-- sequential search, found in parallel. The same is true of errors (an unreadable
-- directory, or what the predicate throws): one to the left of the hit is thrown, one to its
-- right is not seen.
--
-- [Cost]: as 'walkOrdered' for everything to the left; what is to the right ends early.
-- [Blocks]: as 'walk'.
-- [Throws]: the leftmost of 'WalkError' and the predicate's exceptions, if no hit is
-- further left.
-- [Threads]: any; the predicate runs on several at once.
-- [Source]: PCPH, chapter 13, @findpar@.
findFirst :: WalkOptions -> RawPath -> (Entry -> IO Bool) -> IO (Maybe RawPath)
findFirst options root wanted = do
  result <- runWalk quiet [root] $ \entry -> do
    hit <- wanted entry
    pure (if hit then Quit else Descend)
  case walkFound result of
    Nothing -> pure Nothing
    Just (FoundHit path) -> pure (Just path)
    Just (FoundError e) -> throwIO e
    Just (FoundThrown e) -> throwIO e
  where
    quiet =
      options
        { walkOrder = Sorted,
          walkOnError = StopAtErrors,
          walkOutput = -1,
          walkErrors = -1
        }

-- | The last component of the entry's path.
--
-- [Cost]: copies it.
entryNameBytes :: Entry -> IO ByteString
entryNameBytes entry = entryName entry $ \p n -> ByteString.create n (\to -> moveBytes to p n)
