-- |
-- Module      : Heddle.Component.Internal.Locality
-- Description : What can be said of components without running them
-- Stability   : internal, exempt from the version policy
--
-- A stage is local to rows if cutting the input behind a newline changes nothing: then the
-- parts can be worked on at the same time, and what comes out is put together in order.
--
-- Cost: linear in the component.
-- Owner: nobody; pure.
module Heddle.Component.Internal.Locality
  ( isLocal,
    isCountLocal,
    endsRows,
    isRowwise,
    isPointwise,
    isSolid,
    rowTest,
  )
where

import Data.ByteString qualified as Bytes
import Heddle.Component.Internal.Types

-- | Is what it does to some whole rows and to what follows what it does to both together?
isLocal :: Stage -> Bool
isLocal = \case
  Identity -> True
  Suppress -> True
  a :> b -> both a b
  a :|| b -> both a b
  Translate _ -> True
  Fields {} -> True
  If s a b -> labelsLocal s && isPointwise a && isPointwise b
  ForEach s a b -> labelsLocal s && body (trueWithin s) a && body (falseWithin s) b
  _ -> False
  where
    both a b = isLocal a && isLocal b && (endsRows a || isPointwise b)
    body apart stage = not (usesNumber stage) && (apart || isPointwise stage)

-- | Is the number of its true sections the sum of those of the parts?
isCountLocal :: Splitter -> Bool
isCountLocal s = labelsLocal s && trueWithin s

-- | Does what it makes of whole rows end with a newline, if it is anything? Then it is whole
-- rows for the next stage. (It may be 'False' of more stages than it must.)
endsRows :: Stage -> Bool
endsRows = ends False
  where
    -- The first: there is at least a row.
    ends some = \case
      Identity -> True
      Suppress -> True
      a :> b -> ends some a && ends False b
      a :|| b -> ends some a && ends False b
      If s a b
        | isRowwise s -> ends False a && ends False b
        | otherwise -> isPointwise a && isPointwise b && newlinesKept s a b
      ForEach s a b
        | isRowwise s -> ends True a && ends True b
        | otherwise -> newlinesKept s a b
      Count _ -> True
      Number _ -> some
      Numbers -> True
      Prepend text -> some || whole text
      Append text -> whole text
      Instead text -> whole text
      Translate t -> translate t 0x0a == 0x0a
      Fields {} -> True
      Join joint a b -> joined joint (ends some a) (ends some b)
      Command _ -> False
    joined joint a b = case joint of
      Zipping -> b
      Flipped other -> joined other b a
      _ -> a && b
    whole text = Bytes.null text || Bytes.last text == 0x0a
    newlinesKept s a b = case newlineLabel s of
      Just label -> keeps (if label then a else b)
      Nothing -> keeps a && keeps b
    keeps = \case
      Identity -> True
      Translate t -> translate t 0x0a == 0x0a
      a :> b -> keeps a && keeps b
      a :|| b -> keeps a && keeps b
      _ -> False

-- The label of every newline, and nothing is behind the last one of whole rows.
newlineLabel :: Splitter -> Maybe Bool
newlineLabel = \case
  Row -> Just True
  Line -> Just False
  Runs set -> Just (inSet set 0x0a)
  Substring _ text | not (Bytes.null text), Bytes.notElem 0x0a text -> Just False
  Matching _ -> Just False
  Not s -> not <$> newlineLabel s
  And a b -> pair False (newlineLabel a) (newlineLabel b)
  Or a b -> pair True (newlineLabel a) (newlineLabel b)
  Having s _ -> only False (newlineLabel s)
  HavingOnly s _ -> only False (newlineLabel s)
  _ -> Nothing
  where
    -- The one label decides, the other needs both.
    pair decides a b
      | a == Just decides || b == Just decides = Just decides
      | a == b = a
      | otherwise = Nothing
    only label known = if known == Just label then known else Nothing

-- | Is what it does to a stream what it does to each byte, one after the other?
isPointwise :: Stage -> Bool
isPointwise = \case
  Identity -> True
  Suppress -> True
  Translate _ -> True
  a :> b -> isPointwise a && isPointwise b
  a :|| b -> isPointwise a && isPointwise b
  _ -> False

-- | Are its sections the rows, true or false each as it is, whatever the others are?
isRowwise :: Splitter -> Bool
isRowwise = \case
  Row -> True
  Not s -> isRowwise s
  And a b -> isRowwise a && isRowwise b
  Or a b -> isRowwise a && isRowwise b
  Having s _ -> isRowwise s
  HavingOnly s _ -> isRowwise s
  _ -> False

-- | Has it no empty sections, whatever the stream?
isSolid :: Splitter -> Bool
isSolid = \case
  Row -> True
  Runs _ -> True
  Substring _ text -> not (Bytes.null text)
  Not s -> isSolid s
  And a b -> isSolid a && isSolid b
  Or a b -> isSolid a && isSolid b
  _ -> False

-- | The question that is asked of each row by a splitter whose sections are rows: is there a
-- true section of the second in it, or (first) is there none?
rowTest :: Splitter -> Maybe (Bool, Splitter)
rowTest = \case
  Having Row s -> Just (True, s)
  Not (Having Row s) -> Just (False, s)
  _ -> Nothing

-- Are the labels of a stream's bytes those that its rows have by themselves?
labelsLocal :: Splitter -> Bool
labelsLocal = \case
  Row -> True
  Line -> True
  Runs _ -> True
  Substring _ text -> not (Bytes.null text) && Bytes.notElem 0x0a text
  Matching _ -> True
  Not s -> labelsLocal s
  And a b -> labelsLocal a && labelsLocal b
  Or a b -> labelsLocal a && labelsLocal b
  Having s _ -> labelsLocal s && trueWithin s
  HavingOnly s _ -> labelsLocal s && trueWithin s
  _ -> False

-- Does no true (no false) section go on behind a newline?
trueWithin, falseWithin :: Splitter -> Bool
trueWithin = within True
falseWithin = within False

within :: Bool -> Splitter -> Bool
within label = \case
  Row -> True
  Line -> True
  Runs set -> inSet set 0x0a /= label
  Substring _ text -> label && Bytes.notElem 0x0a text
  Matching _ -> label
  Not s -> within (not label) s
  -- A section goes on only if it does on both sides. In a true section of a conjunction both are
  -- true; a false one may be a false one beside anything.
  And a b -> if label then within True a || within True b else always a || always b
  Or a b -> if label then always a || always b else within False a || within False b
  Having s _ -> within label s && within True s
  HavingOnly s _ -> within label s && within True s
  _ -> False
  where
    always s = within True s && within False s
