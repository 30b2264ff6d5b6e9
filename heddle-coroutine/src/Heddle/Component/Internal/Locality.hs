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
  a :> b -> isLocal a && isLocal b
  a :|| b -> isLocal a && isLocal b
  Translate _ -> True
  Fields {} -> True
  If s a b -> labelsLocal s && isPointwise a && isPointwise b
  ForEach s a b -> labelsLocal s && body (trueWithin s) a && body (falseWithin s) b
  _ -> False
  where
    body apart stage = not (usesNumber stage) && (apart || isPointwise stage)

-- | Is the number of its true sections the sum of those of the parts?
isCountLocal :: Splitter -> Bool
isCountLocal s = labelsLocal s && trueWithin s

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
