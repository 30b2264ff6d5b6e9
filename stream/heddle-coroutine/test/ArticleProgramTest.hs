-- | Random networks of components do what the specification does: the same items in the same
-- order, the same effects between them, the same results.
module ArticleProgramTest (tests) where

import ArticleLibrary
import ArticleTerms
import Control.Monad.Trans.Writer.Strict (runWriter)
import Heddle.Coroutine qualified as Ours
import Heddle.Coroutine.Article qualified as Spec
import Test.QuickCheck
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.QuickCheck (QuickCheckMaxSize (..), QuickCheckTests (..), testProperty)
import Prelude hiding (not)

tests :: TestTree
tests =
  localOption (QuickCheckTests 20000) . localOption (QuickCheckMaxSize 24) $
    testGroup
      "random components"
      [ testProperty "networks, over characters" (networks (arbitraryItems :: Gen [Char])),
        testProperty "networks, over lists" (networks (scale (`div` 2) arbitraryItems :: Gen [String])),
        testProperty "splitters of any kind, both sides" bothSides
      ]

arbitraryItems :: Item a => Gen [a]
arbitraryItems = listOf genItem

networks :: forall a. Item a => Gen [a] -> Property
networks items =
  forAllShrink (sized (genBody . (`div` 3))) shrinkBody $ \b ->
    forAllShrink items (shrinkList (const [])) $ \as ->
      runWriter (through awaited yielded (transducer b :: OursT a) as)
        === runWriter (through awaited yielded (transducer b :: SpecT a) as)

awaited, yielded :: Item a => a -> Out ()
awaited a = note (1 : code a)
yielded b = note (2 : code b)

type OursT a = Ours.Coroutine (TransF a a) Out [Int]

type SpecT a = Spec.Coroutine (TransF a a) Out [Int]

-- | Each section of either side as a list, with a mark.
bothSides :: Property
bothSides =
  forAllShrink (sized (genSplit True . (`div` 2))) shrinkSplit $ \s ->
    forAllShrink arbitraryItems (shrinkList (const [])) $ \as ->
      conjoin
        [ runWriter (through awaited yielded (groupBy (side (splitter s)) :: Ours.Coroutine (TransF Char String) Out [Int]) as)
            === runWriter (through awaited yielded (groupBy (side' (splitter s)) :: Spec.Coroutine (TransF Char String) Out [Int]) as)
          | (side, side') <- [(id, id), (not, not)]
        ]
