-- |
-- Module      : Heddle.Filter.Internal.Aligned
-- Description : Combines two splitters byte by byte
-- Stability   : internal, exempt from the version policy
--
-- Both splitters get the whole stream. Bytes whose labels both have decided are passed on,
-- piece by piece.
--
-- Cost: a call or two for each piece; what one side is ahead of the other is held back.
-- Owner: the thread that runs the machine.
module Heddle.Filter.Internal.Aligned
  ( pointwise,
    between,
  )
where

import Control.Monad (unless, when, zipWithM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.MemoryBudget
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)

-- What a side has decided.
data Event
  = -- | An empty section with this label.
    Blank !Bool
  | -- | Bytes of a section: whether they are its first, its label, and the bytes.
    Some !Bool !Bool !ByteString
  | -- | The end of a section that was not empty.
    Stop

data Side = Side
  { sideEvents :: !(Ref (Seq Event)),
    -- The labels of the empty sections before the next byte, the last one first.
    sideBlanks :: !(Ref [Bool]),
    sideBudget :: !MemoryBudget
  }

-- The consumer of what both sides have decided.
data Both = Both
  { -- Bytes; for either side, whether a section begins with them, and its label.
    both :: (Bool, Bool) -> (Bool, Bool) -> ByteString -> IO (),
    -- A section has ended on one side.
    stopped :: IO (),
    -- The empty sections of both sides before the same byte.
    blanks :: [Bool] -> [Bool] -> IO (),
    -- Is more wanted?
    goOn :: IO Bool,
    ended :: IO ()
  }

newSide :: Env -> IO Side
newSide env = Side <$> newRef Seq.empty <*> newRef [] <*> newBudget env

sideSections :: Side -> IO Sections
sideSections side = do
  -- The label of a section that has begun but has no bytes so far; that of one that has some.
  begun <- newRef Nothing
  now <- newRef False
  let tell event = modifyRef (sideEvents side) (\events -> (events |> event, ()))
  pure
    Sections
      { begin = writeRef begun . Just,
        more = \piece -> do
          charge (sideBudget side) piece
          readRef begun >>= \case
            Just label -> do
              writeRef begun Nothing
              writeRef now label
              tell (Some True label piece)
            Nothing -> readRef now >>= \label -> tell (Some False label piece),
        end =
          readRef begun >>= \case
            Just label -> writeRef begun Nothing >> tell (Blank label)
            Nothing -> tell Stop,
        rest = \_ -> pure (),
        wantsMore = pure True,
        over = pure ()
      }

aligned :: Both -> (Sections -> IO Sink) -> (Sections -> IO Sink) -> Env -> IO Sink
aligned to splitA splitB env = do
  a <- newSide env
  b <- newSide env
  sinkA <- sideSections a >>= splitA
  sinkB <- sideSections b >>= splitB
  let settle side =
        readRef (sideEvents side) >>= \case
          Blank label :<| events -> do
            writeRef (sideEvents side) events
            modifyRef (sideBlanks side) (\labels -> (label : labels, ()))
            settle side
          Stop :<| events -> do
            writeRef (sideEvents side) events
            stopped to
            settle side
          _ -> pure ()
      place = do
        as <- readRef (sideBlanks a)
        bs <- readRef (sideBlanks b)
        unless (null as && null bs) $ do
          writeRef (sideBlanks a) []
          writeRef (sideBlanks b) []
          blanks to (reverse as) (reverse bs)
      consume side n start label piece events = do
        refund (sideBudget side) n
        let left = Bytes.unsafeDrop n piece
        writeRef (sideEvents side) (if Bytes.null left then events else Some False label left :<| events)
        pure (start, label)
      drain = do
        settle a
        settle b
        eventsA <- readRef (sideEvents a)
        eventsB <- readRef (sideEvents b)
        case (eventsA, eventsB) of
          (Some startA labelA pieceA :<| restA, Some startB labelB pieceB :<| restB) -> do
            place
            let n = min (Bytes.length pieceA) (Bytes.length pieceB)
            ofA <- consume a n startA labelA pieceA restA
            ofB <- consume b n startB labelB pieceB restB
            both to ofA ofB (Bytes.unsafeTake n pieceA)
            goOn to >>= \ok -> when ok drain
          _ -> pure ()
  pure $
    Sink
      ( \piece -> do
          ok <- goOn to
          if ok then push sinkA piece >> push sinkB piece >> drain >> goOn to else pure False
      )
      (finish sinkA >> finish sinkB >> drain >> place >> ended to)

-- | Combine labels byte by byte, and those of empty sections before the same byte.
pointwise :: (Bool -> Bool -> Bool) -> (Sections -> IO Sink) -> (Sections -> IO Sink) -> Env -> Sections -> IO Sink
pointwise op splitA splitB env to = do
  open <- newRef False
  let close = do
        isOpen <- readRef open
        when isOpen (end to >> writeRef open False)
  aligned
    Both
      { both = \(startA, labelA) (startB, labelB) piece -> do
          when (startA || startB) close
          isOpen <- readRef open
          unless isOpen (begin to (op labelA labelB) >> writeRef open True)
          more to piece,
        stopped = close,
        blanks = \as bs -> close >> zipWithM_ (\x y -> begin to (op x y) >> end to) as bs,
        goOn = wantsMore to,
        ended = close >> over to
      }
    splitA
    splitB
    env

-- Where a byte is, relative to the sections that open and close.
data Place
  = Before
  | -- In a true section of the opening splitter.
    Opening
  | Inside
  | -- In a true section of the closing splitter, which opens nothing.
    Closing

-- | The bytes between a true section of one splitter and the next true section of the other.
-- A section that is not closed goes to the end.
between :: (Sections -> IO Sink) -> (Sections -> IO Sink) -> Env -> Sections -> IO Sink
between splitA splitB env to = do
  place <- newRef Before
  -- The label of the section that is open.
  open <- newRef Nothing
  let close = readRef open >>= mapM_ (\_ -> end to >> writeRef open Nothing)
      start label = close >> begin to label >> writeRef open (Just label)
      tell label piece = do
        now <- readRef open
        unless (now == Just label) (start label)
        more to piece
      enter = start True >> writeRef place Inside
      go ofA@(startA, labelA) ofB@(startB, labelB) piece =
        readRef place >>= \case
          Before -> do
            when labelA (writeRef place Opening)
            tell False piece
          Opening
            | labelA && not startA -> tell False piece
            | otherwise -> enter >> go ofA ofB piece
          Inside
            | labelB -> writeRef place Closing >> tell False piece
            | otherwise -> tell True piece
          Closing
            | labelB && not startB -> tell False piece
            | otherwise -> writeRef place Before >> go ofA ofB piece
  aligned
    Both
      { both = go,
        stopped = pure (),
        blanks = \_ _ -> pure (),
        goOn = wantsMore to,
        ended = close >> over to
      }
    splitA
    splitB
    env
