-- |
-- Module      : Heddle.Filter.Internal.RowParallel
-- Description : Row-parallel analysis of stages and splitters
-- Stability   : internal, exempt from the version policy
--
-- A stage is row-parallel if cutting its input after a newline does not change its output: then
-- parts of the input can be run in parallel, and their outputs put together in order.
--
-- The facts about a component follow from those about its parts. They are computed together, in
-- one pass from the bottom up, because separate functions that each ask about the same parts
-- at each level would be quadratic.
--
-- Cost: linear in the component.
-- Owner: none; pure functions.
module Heddle.Filter.Internal.RowParallel
  ( isRowParallel,
    isCountRowParallel,
    endsRows,
    isRowwise,
    isPointwise,
    isSolid,
    rowTest,

    -- * Chains, link by link
    StageFacts,
    stageFacts,
    chained,
    factRowParallel,
  )
where

import Data.ByteString qualified as Bytes
import Heddle.Filter.Internal.Types

-- | Is the output for some whole rows, followed by the output for the rest of the input, the
-- same as the output for all of it?
isRowParallel :: Stage -> Bool
isRowParallel = factRowParallel . stageFacts

-- | Given whole rows, does it output whole rows? (It may be 'False' where it could be 'True'.)
endsRows :: Stage -> Bool
endsRows = factEnds . stageFacts

-- | Does it treat each byte by itself?
isPointwise :: Stage -> Bool
isPointwise = factPointwise . stageFacts

-- | If the input is cut after a newline, is the number of true sections the sum of the parts'?
isCountRowParallel :: Splitter -> Bool
isCountRowParallel s = factLabels facts && factTrueWithin facts
  where
    facts = splitterFacts s

-- | Are its sections the rows, and does each label depend on its row alone?
isRowwise :: Splitter -> Bool
isRowwise = factRowwise . splitterFacts

-- | Has it no empty sections, whatever the input?
isSolid :: Splitter -> Bool
isSolid = factSolid . splitterFacts

-- | If the splitter selects rows by a test: whether a row passes if the other splitter has a true
-- section in it ('True') or if it has none ('False'), and that splitter.
rowTest :: Splitter -> Maybe (Bool, Splitter)
rowTest = \case
  Having Row s -> Just (True, s)
  Not (Having Row s) -> Just (False, s)
  _ -> Nothing

-- Stages ---------------------------------------------------------------------

-- | The facts about a stage. The fields are lazy.
data StageFacts = StageFacts
  { -- | See 'isRowParallel'.
    factRowParallel :: Bool,
    -- | See 'endsRows'.
    factEnds :: Bool,
    -- | The same for inputs with at least one row.
    factEndsSome :: Bool,
    -- | See 'isPointwise'.
    factPointwise :: Bool,
    -- Does each newline stay a newline, after the output for the bytes before it?
    factKeeps :: Bool,
    factNumbers :: Bool
  }

-- | The facts about a stage.
--
-- [Cost]: linear.
stageFacts :: Stage -> StageFacts
stageFacts = \case
  Identity -> unknown {factRowParallel = True, factEnds = True, factEndsSome = True, factPointwise = True, factKeeps = True}
  Suppress -> unknown {factRowParallel = True, factEnds = True, factEndsSome = True, factPointwise = True}
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
          { factRowParallel = factLabels of' && factPointwise fa && factPointwise fb,
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
          { factRowParallel = factLabels of' && body (factTrueWithin of') fa && body (factFalseWithin of') fb,
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
     in (ending same) {factRowParallel = True, factPointwise = True, factKeeps = same}
  Fields {} -> (ending True) {factRowParallel = True}
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

-- | The facts about a chain of two stages.
--
-- [Cost]: constant.
chained :: StageFacts -> StageFacts -> StageFacts
chained a b =
  StageFacts
    { factRowParallel = factRowParallel a && factRowParallel b && (factEnds a || factPointwise b),
      factEnds = factEnds a && factEnds b,
      factEndsSome = factEndsSome a && factEnds b,
      factPointwise = factPointwise a && factPointwise b,
      factKeeps = factKeeps a && factKeeps b,
      factNumbers = factNumbers a || factNumbers b
    }

-- Splitters ------------------------------------------------------------------

-- The facts about a splitter.
data SplitterFacts = SplitterFacts
  { factRowwise :: Bool,
    factSolid :: Bool,
    -- Does each byte have the label that it has in its row alone?
    factLabels :: Bool,
    -- Does every true (every false) section end at a newline at the latest?
    factTrueWithin :: Bool,
    factFalseWithin :: Bool,
    -- The label of all newlines, if they have the same one and no section follows the last.
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
  -- A section goes on only if it does on both sides. In a true section of a conjunction both sides
  -- are true; in a false one, one side may be anything.
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
    -- For newlines, one label decides, the other needs both sides.
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
    -- Some of its true sections become false.
    only f =
      f
        { factSolid = False,
          factLabels = factLabels f && factTrueWithin f,
          factFalseWithin = factFalseWithin f && factTrueWithin f,
          factNewline = if factNewline f == Just False then Just False else Nothing
        }
