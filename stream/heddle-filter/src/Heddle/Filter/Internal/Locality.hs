-- |
-- Module      : Heddle.Filter.Internal.Locality
-- Description : What can be said of components without running them
-- Stability   : internal, exempt from the version policy
--
-- A stage is local to rows if cutting the input behind a newline changes nothing: then the
-- parts can be worked on at the same time, and what comes out is put together in order.
--
-- The answers about a component follow from those about its parts, so they are made together,
-- in one pass from the bottom up: a question that asks another one of the same parts again at
-- each level would be quadratic.
--
-- Cost: linear in the component.
-- Owner: nobody; pure.
module Heddle.Filter.Internal.Locality
  ( isLocal,
    isCountLocal,
    endsRows,
    isRowwise,
    isPointwise,
    isSolid,
    rowTest,

    -- * Of a chain, link by link
    StageFacts,
    stageFacts,
    chained,
    factLocal,
  )
where

import Data.ByteString qualified as Bytes
import Heddle.Filter.Internal.Types

-- | Is what it does to some whole rows and to what follows what it does to both together?
isLocal :: Stage -> Bool
isLocal = factLocal . stageFacts

-- | Does what it makes of whole rows end with a newline, if it is anything? Then it is whole
-- rows for the next stage. (It may be 'False' of more stages than it must.)
endsRows :: Stage -> Bool
endsRows = factEnds . stageFacts

-- | Is what it does to a stream what it does to each byte, one after the other?
isPointwise :: Stage -> Bool
isPointwise = factPointwise . stageFacts

-- | Is the number of its true sections the sum of those of the parts?
isCountLocal :: Splitter -> Bool
isCountLocal s = factLabels facts && factTrueWithin facts
  where
    facts = splitterFacts s

-- | Are its sections the rows, true or false each as it is, whatever the others are?
isRowwise :: Splitter -> Bool
isRowwise = factRowwise . splitterFacts

-- | Has it no empty sections, whatever the stream?
isSolid :: Splitter -> Bool
isSolid = factSolid . splitterFacts

-- | The question that is asked of each row by a splitter whose sections are rows: is there a
-- true section of the second in it, or (first) is there none?
rowTest :: Splitter -> Maybe (Bool, Splitter)
rowTest = \case
  Having Row s -> Just (True, s)
  Not (Having Row s) -> Just (False, s)
  _ -> Nothing

-- Stages ---------------------------------------------------------------------

-- | What is known of a stage. Each answer is made when it is asked for.
data StageFacts = StageFacts
  { -- | See 'isLocal'.
    factLocal :: Bool,
    -- | See 'endsRows'.
    factEnds :: Bool,
    -- | The same where the input has at least a row.
    factEndsSome :: Bool,
    -- | See 'isPointwise'.
    factPointwise :: Bool,
    -- Does each newline stay one, and behind everything else?
    factKeeps :: Bool,
    factNumbers :: Bool
  }

-- | All that is known of a stage.
--
-- [Cost]: linear.
stageFacts :: Stage -> StageFacts
stageFacts = \case
  Identity -> unknown {factLocal = True, factEnds = True, factEndsSome = True, factPointwise = True, factKeeps = True}
  Suppress -> unknown {factLocal = True, factEnds = True, factEndsSome = True, factPointwise = True}
  a :> b -> chained (stageFacts a) (stageFacts b)
  a :|| b -> chained (stageFacts a) (stageFacts b)
  If s a b ->
    let of' = splitterFacts s
        fa = stageFacts a
        fb = stageFacts b
        ends
          | factRowwise of' = factEnds fa && factEnds fb
          | otherwise = factPointwise fa && factPointwise fb && newlinesKept of' fa fb
     in unknown
          { factLocal = factLabels of' && factPointwise fa && factPointwise fb,
            factEnds = ends,
            factEndsSome = ends,
            factNumbers = factNumbers fa || factNumbers fb
          }
  ForEach s a b ->
    let of' = splitterFacts s
        fa = stageFacts a
        fb = stageFacts b
        ends
          | factRowwise of' = factEndsSome fa && factEndsSome fb
          | otherwise = newlinesKept of' fa fb
        body within f = not (factNumbers f) && (within || factPointwise f)
     in unknown
          { factLocal = factLabels of' && body (factTrueWithin of') fa && body (factFalseWithin of') fb,
            factEnds = ends,
            factEndsSome = ends
          }
  Count _ -> ending True
  Number _ -> unknown {factEndsSome = True, factNumbers = True}
  Numbers -> ending True
  Prepend text -> unknown {factEnds = whole text, factEndsSome = True}
  Append text -> ending (whole text)
  Instead text -> ending (whole text)
  Translate t ->
    let same = translate t 0x0a == 0x0a
     in (ending same) {factLocal = True, factPointwise = True, factKeeps = same}
  Fields {} -> (ending True) {factLocal = True}
  Join joint a b ->
    let fa = stageFacts a
        fb = stageFacts b
     in unknown
          { factEnds = joined joint (factEnds fa) (factEnds fb),
            factEndsSome = joined joint (factEndsSome fa) (factEndsSome fb),
            factNumbers = factNumbers fa || factNumbers fb
          }
  Command _ -> unknown
  where
    unknown = StageFacts False False False False False False
    ending ends = unknown {factEnds = ends, factEndsSome = ends}
    whole text = Bytes.null text || Bytes.last text == 0x0a
    joined joint a b = case joint of
      Zipping -> b
      Flipped other -> joined other b a
      _ -> a && b
    newlinesKept of' fa fb = case factNewline of' of
      Just label -> factKeeps (if label then fa else fb)
      Nothing -> factKeeps fa && factKeeps fb

-- | What is known of two stages, the second behind the first.
--
-- [Cost]: constant.
chained :: StageFacts -> StageFacts -> StageFacts
chained a b =
  StageFacts
    { factLocal = factLocal a && factLocal b && (factEnds a || factPointwise b),
      factEnds = factEnds a && factEnds b,
      factEndsSome = factEndsSome a && factEnds b,
      factPointwise = factPointwise a && factPointwise b,
      factKeeps = factKeeps a && factKeeps b,
      factNumbers = factNumbers a || factNumbers b
    }

-- Splitters ------------------------------------------------------------------

-- What is known of a splitter.
data SplitterFacts = SplitterFacts
  { factRowwise :: Bool,
    factSolid :: Bool,
    -- Are the labels of a stream's bytes those that its rows have by themselves?
    factLabels :: Bool,
    -- Does no true (no false) section go on behind a newline?
    factTrueWithin :: Bool,
    factFalseWithin :: Bool,
    -- The label of every newline, and nothing is behind the last one of whole rows.
    factNewline :: Maybe Bool
  }

splitterFacts :: Splitter -> SplitterFacts
splitterFacts = \case
  Row -> SplitterFacts True True True True True (Just True)
  Line -> SplitterFacts False False True True True (Just False)
  Runs set ->
    let member = inSet set 0x0a
     in SplitterFacts False True True (not member) member (Just member)
  Substring _ text ->
    let some = not (Bytes.null text)
        within = Bytes.notElem 0x0a text
     in SplitterFacts False some (some && within) within False (if some && within then Just False else Nothing)
  Matching _ -> SplitterFacts False False True True False (Just False)
  Not s ->
    let f = splitterFacts s
     in f {factTrueWithin = factFalseWithin f, factFalseWithin = factTrueWithin f, factNewline = not <$> factNewline f}
  -- A section goes on only if it does on both sides. In a true section of a conjunction both are
  -- true; a false one may be a false one beside anything.
  And a b ->
    let (fa, fb) = (splitterFacts a, splitterFacts b)
     in (pair False fa fb) {factTrueWithin = factTrueWithin fa || factTrueWithin fb, factFalseWithin = always fa || always fb}
  Or a b ->
    let (fa, fb) = (splitterFacts a, splitterFacts b)
     in (pair True fa fb) {factTrueWithin = always fa || always fb, factFalseWithin = factFalseWithin fa || factFalseWithin fb}
  Having s _ -> only (splitterFacts s)
  HavingOnly s _ -> only (splitterFacts s)
  _ -> SplitterFacts False False False False False Nothing
  where
    always f = factTrueWithin f && factFalseWithin f
    -- For newlines, the one label decides, the other needs both.
    pair decides fa fb =
      SplitterFacts
        { factRowwise = factRowwise fa && factRowwise fb,
          factSolid = factSolid fa && factSolid fb,
          factLabels = factLabels fa && factLabels fb,
          factTrueWithin = False,
          factFalseWithin = False,
          factNewline = decided decides (factNewline fa) (factNewline fb)
        }
    decided decides a b
      | a == Just decides || b == Just decides = Just decides
      | a == b = a
      | otherwise = Nothing
    -- Some true sections of it become false ones.
    only f =
      f
        { factSolid = False,
          factLabels = factLabels f && factTrueWithin f,
          factFalseWithin = factFalseWithin f && factTrueWithin f,
          factNewline = if factNewline f == Just False then Just False else Nothing
        }
