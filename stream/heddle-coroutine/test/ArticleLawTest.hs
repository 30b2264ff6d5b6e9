-- | What splitters and joins promise: their meaning on lists, and the laws of logic.
module ArticleLawTest (tests) where

import ArticleLibrary (said, splitter)
import ArticleTerms
import Control.Monad.Trans.Writer.Strict (runWriter)
import Data.Functor.Identity (Identity (..))
import Data.List (isPrefixOf, isSuffixOf, tails)
import Data.Maybe (mapMaybe)
import Heddle.Coroutine hiding (interleave)
import Heddle.Coroutine.Components qualified as C
import SpecComponents (Sections, sections)
import Test.QuickCheck
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.QuickCheck (QuickCheckMaxSize (..), QuickCheckTests (..), testProperty)

tests :: TestTree
tests =
  localOption (QuickCheckTests 3000) . localOption (QuickCheckMaxSize 24) $
    testGroup
      "laws of components"
      [ testGroup
          "splitters"
          [ testProperty "mean on characters what they mean on lists" (means (Nothing :: Maybe Char)),
            testProperty "mean on lists what they mean on lists" (means (Nothing :: Maybe String)),
            testProperty "pass all, unmodified, in order" complete,
            testProperty "both branches together have all" branches,
            testProperty "groupBy line is lines" grouping,
            testProperty "a substring is decided as early as can be" early
          ],
        testGroup
          "logic"
          [ law1 "double negation" $ \a -> (Not (Not a), a),
            law1 "and is idempotent" $ \a -> (And a a, a),
            law1 "or is idempotent" $ \a -> (Or a a, a),
            law2 "and is commutative" $ \a b -> (And a b, And b a),
            law2 "or is commutative" $ \a b -> (Or a b, Or b a),
            law3 "and is associative" $ \a b c -> (And a (And b c), And (And a b) c),
            law3 "or is associative" $ \a b c -> (Or a (Or b c), Or (Or a b) c),
            law2 "De Morgan, and" $ \a b -> (Not (And a b), Or (Not a) (Not b)),
            law2 "De Morgan, or" $ \a b -> (Not (Or a b), And (Not a) (Not b)),
            law3 "and distributes over or" $ \a b c -> (And a (Or b c), Or (And a b) (And a c)),
            law3 "or distributes over and" $ \a b c -> (Or a (And b c), And (Or a b) (Or a c)),
            testProperty "any is not all not" anyAll,
            testProperty "absorption, for what goes where" absorption
          ],
        testGroup
          "joins"
          [ testProperty "append" (joins C.append (++)),
            testProperty "interleave" (joins C.interleave taking),
            testProperty "combine" (joins (C.combine (-)) (zipWith (-))),
            testProperty "flipJoin" (joins (C.flipJoin (C.combine (-))) (flip (zipWith (-)))),
            testProperty "flipJoin twice" (joins (C.flipJoin (C.flipJoin C.interleave)) taking)
          ]
      ]
  where
    law1 name f = testProperty name (withSplits 1 (f . head))
    law2 name f = testProperty name (withSplits 2 (\ss -> f (head ss) (ss !! 1)))
    law3 name f = testProperty name (withSplits 3 (\ss -> f (head ss) (ss !! 1) (ss !! 2)))

items :: Item a => Gen [a]
items = listOf genItem

onItems :: (Item a, Testable p) => ([a] -> p) -> Property
onItems = forAllShrink items (shrinkList (const []))

onSplits :: (Item a, Testable p) => (Split a -> p) -> Property
onSplits = forAllShrink (sized (genSplit False . (`div` 2))) shrinkSplit

-- | Over a whole list.
parted :: Item a => Split a -> [a] -> Sections a
parted s as = sections (said (map Just as ++ repeat Nothing) (splitter s))

withSplits :: Int -> ([Split Char] -> (Split Char, Split Char)) -> Property
withSplits n f =
  forAllShrink (vectorOf n (sized (genSplit False . (`div` 4)))) shrinkEach $ \ss ->
    onItems $ \as -> let (a, b) = f ss in parted a as === parted b as
  where
    shrinkEach = \case
      [] -> []
      s : ss -> map (: ss) (shrinkSplit s) ++ map (s :) (shrinkEach ss)

means :: forall a. Item a => Maybe a -> Property
means _ = onSplits $ \s -> onItems $ \(as :: [a]) -> parted s as === meaning s as

complete :: Property
complete = onSplits $ \s -> onItems $ \as -> mapMaybe snd (said (map Just as ++ repeat Nothing) (splitter s)) === (as :: String)

-- | One branch marks what it is given.
branches :: Property
branches =
  onSplits $ \s -> onItems $ \as ->
    let (marked, _) = fst (runWriter (runGenerator (toGenerator (fromGenerator (mapM_ yield as) =>= C.ifThenElse (splitter s) (lift121 Left) (lift121 Right)))))
     in marked === [if left then Left a else Right a | (left, section) <- meaning s as, a <- section :: String]

grouping :: Property
grouping = onItems $ \text -> fst (runIdentity (runGenerator (toGenerator (fromGenerator (mapM_ yield text) =>= C.groupBy C.line)))) === lines text

-- | What it holds back is the longest that may become an occurrence.
early :: Property
early =
  forAllShrink (resize 5 (listOf1 genItem)) shrinkWanted $ \wanted -> onItems $ \as ->
    let told = mapMaybe snd (said (map Just as) (C.substring wanted))
        -- What is after the last occurrence.
        after = case reverse ss of
          (False, section) : _ -> section
          _ -> []
        ss = meaning (Substring wanted) as
        held = head [t | t <- tails after, t `isPrefixOf` wanted]
     in counterexample (show held) (told ++ held === (as :: String) .&&. property (held `isSuffixOf` as))
  where
    shrinkWanted as = [bs | bs@(_ : _) <- shrinkList (const []) as]

anyAll :: Property
anyAll = onSplits $ \s -> onItems $ \as -> parted (Any s) (as :: [String]) === parted (Not (All (Not s))) as

absorption :: Property
absorption =
  onSplits $ \a -> onSplits $ \b -> onItems $ \(as :: String) ->
    sided (And a (Or a b)) as === sided a as .&&. sided (Or a (And a b)) as === sided a as
  where
    sided s as = [(left, c) | (left, section) <- parted s as, c <- section]

-- | Of two generators.
joins :: Join Int Identity () -> ([Int] -> [Int] -> [Int]) -> [Int] -> [Int] -> Property
joins j f as bs =
  fst (runIdentity (runGenerator (toGenerator (C.joinTransduced (fromGenerator (mapM_ yield as)) (fromGenerator (mapM_ yield bs)) j)))) === f as bs

taking :: [a] -> [a] -> [a]
taking [] bs = bs
taking (a : as) bs = a : taking bs as
