-- |
-- Module      : Heddle.Filter.Internal.Waiting
-- Description : Sections that wait for a decision
-- Stability   : internal, exempt from the version policy
--
-- A queue of sections, some not yet known to be true or false. What is at its front and
-- known is told at once; the rest waits its turn.
--
-- Cost: a few closures for each section and each piece; bounded by 'Held'.
-- Owner: the thread that runs the machine.
module Heddle.Filter.Internal.Waiting
  ( Queue,
    newQueue,
    enqueue,
    append,
    endNewest,
    settle,
    advance,
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
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)

-- | A queue of sections, which are told to a taker.
data Queue = Queue
  { queueHeld :: !Held,
    queueTo :: !Sections,
    queueState :: !(Ref State)
  }

-- The number of the first, and all of them.
data State = State !Int !(Seq Section)

data Section = Section
  { sectionLabel :: !(Maybe Bool),
    -- Has its taker been told that it begins?
    sectionBegun :: !Bool,
    sectionPieces :: !(Seq ByteString),
    sectionEnded :: !Bool
  }

-- | Nothing waits.
newQueue :: Held -> Sections -> IO Queue
newQueue held to = Queue held to <$> newRef (State 0 Seq.empty)

-- | A section begins; its number.
enqueue :: Queue -> Maybe Bool -> IO Int
enqueue queue label = do
  State first sections <- readRef (queueState queue)
  writeRef (queueState queue) (State first (sections |> Section label False Seq.empty False))
  pure (first + Seq.length sections)

-- | A piece of the newest section.
--
-- [Throws]: 'TooLong'.
append :: Queue -> ByteString -> IO ()
append queue piece = do
  hold (queueHeld queue) piece
  State first sections <- readRef (queueState queue)
  case sections of
    older :|> newest -> writeRef (queueState queue) (State first (older |> newest {sectionPieces = sectionPieces newest |> piece}))
    Empty -> pure ()

-- | The newest section has ended; its number, and what is known of it.
endNewest :: Queue -> IO (Int, Maybe Bool)
endNewest queue = do
  State first sections <- readRef (queueState queue)
  case sections of
    older :|> newest -> do
      writeRef (queueState queue) (State first (older |> newest {sectionEnded = True}))
      pure (first + Seq.length older, sectionLabel newest)
    Empty -> pure (first, Nothing)

-- | This section is true or false, unless that is known already.
settle :: Queue -> Int -> Bool -> IO ()
settle queue number label = do
  State first sections <- readRef (queueState queue)
  let decided section = section {sectionLabel = sectionLabel section <|> Just label}
  writeRef (queueState queue) (State first (Seq.adjust' decided (number - first) sections))

-- | Tell what is known, from the front.
advance :: Queue -> IO ()
advance queue = do
  State first sections <- readRef (queueState queue)
  case sections of
    section@Section {sectionLabel = Just label} :<| others -> do
      let to = queueTo queue
          pieces = sectionPieces section
      unless (sectionBegun section) (begin to label)
      for_ pieces (more to)
      dropHeld (queueHeld queue) (sum (fmap Bytes.length pieces))
      if sectionEnded section
        then do
          end to
          writeRef (queueState queue) (State (first + 1) others)
          more' <- wantsMore to
          when more' (advance queue)
        else writeRef (queueState queue) (State first (section {sectionBegun = True, sectionPieces = Seq.empty} :<| others))
    _ -> pure ()
