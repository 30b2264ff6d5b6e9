-- |
-- Module      : Heddle.Filter.Internal.ReorderBuffer
-- Description : Sections whose labels become known out of order
-- Stability   : internal, exempt from the version policy
--
-- A reorder buffer of sections. Their labels may be settled in any order; sections are passed
-- on in the order of the stream, each as soon as its label and those before it are known.
--
-- Cost: a few closures for each section and each piece; bounded by a
-- "Heddle.Filter.Internal.MemoryBudget".
-- Owner: the thread that runs the machine.
module Heddle.Filter.Internal.ReorderBuffer
  ( ReorderBuffer,
    newReorderBuffer,
    beginSection,
    appendPiece,
    endSection,
    settle,
    release,
  )
where

import Control.Applicative ((<|>))
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.Foldable (for_)
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.MemoryBudget
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)

-- | Sections that wait, and the consumer that they are passed to.
data ReorderBuffer = ReorderBuffer
  { bufferBudget :: !MemoryBudget,
    bufferTo :: !Sections,
    bufferState :: !(Ref State)
  }

-- The number of the oldest section, and all of them.
data State = State !Int !(Seq Section)

data Section = Section
  { sectionLabel :: !(Maybe Bool),
    -- Has the consumer been told that it begins?
    sectionBegun :: !Bool,
    sectionPieces :: !(Seq ByteString),
    sectionEnded :: !Bool
  }

-- | An empty buffer.
newReorderBuffer :: MemoryBudget -> Sections -> IO ReorderBuffer
newReorderBuffer budget to = ReorderBuffer budget to <$> newRef (State 0 Seq.empty)

-- | A section begins, with its label if that is known; its number.
beginSection :: ReorderBuffer -> Maybe Bool -> IO Int
beginSection buffer label = do
  State first sections <- readRef (bufferState buffer)
  writeRef (bufferState buffer) (State first (sections |> Section label False Seq.empty False))
  pure (first + Seq.length sections)

-- | Add a piece to the newest section.
--
-- [Throws]: 'TooLong'.
appendPiece :: ReorderBuffer -> ByteString -> IO ()
appendPiece buffer piece = do
  charge (bufferBudget buffer) piece
  State first sections <- readRef (bufferState buffer)
  case sections of
    older :|> newest -> writeRef (bufferState buffer) (State first (older |> newest {sectionPieces = sectionPieces newest |> piece}))
    Empty -> pure ()

-- | The newest section has ended; its number, and its label if that is known.
endSection :: ReorderBuffer -> IO (Int, Maybe Bool)
endSection buffer = do
  State first sections <- readRef (bufferState buffer)
  case sections of
    older :|> newest -> do
      writeRef (bufferState buffer) (State first (older |> newest {sectionEnded = True}))
      pure (first + Seq.length older, sectionLabel newest)
    Empty -> pure (first, Nothing)

-- | Give a section its label, unless it has one.
settle :: ReorderBuffer -> Int -> Bool -> IO ()
settle buffer number label = do
  State first sections <- readRef (bufferState buffer)
  let decided section = section {sectionLabel = sectionLabel section <|> Just label}
  writeRef (bufferState buffer) (State first (Seq.adjust' decided (number - first) sections))

-- | Pass on the oldest sections, up to the first one without a label.
release :: ReorderBuffer -> IO ()
release buffer = do
  State first sections <- readRef (bufferState buffer)
  case sections of
    section@Section {sectionLabel = Just label} :<| others -> do
      let to = bufferTo buffer
          pieces = sectionPieces section
      unless (sectionBegun section) (begin to label)
      for_ pieces (more to)
      refund (bufferBudget buffer) (sum (fmap Bytes.length pieces))
      if sectionEnded section
        then do
          end to
          writeRef (bufferState buffer) (State (first + 1) others)
          wanted <- wantsMore to
          when wanted (release buffer)
        else writeRef (bufferState buffer) (State first (section {sectionBegun = True, sectionPieces = Seq.empty} :<| others))
    _ -> pure ()
