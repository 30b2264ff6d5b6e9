{-# LANGUAGE OverloadedStrings #-}

-- | The laws by which components are rewritten, and those of the algebra of splitters.
module FilterLawTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.List (nub)
import FilterGen
import FilterSpec
import Heddle.Filter
import Heddle.Filter.Language (printSplitter, printStage)
import System.IO.Unsafe (unsafePerformIO)
import Test.QuickCheck
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)

tests :: TestTree
tests =
  testGroup
    "Heddle.Filter, laws"
    [ testGroup "rewriting" (map law [minBound .. maxBound]),
      testProperty "random stages are rewritten to what nothing applies to, and means the same" . withMaxSuccess 4000 $
        forAllShrink (chooseInt (0, 6) >>= stages) shrinkStage $ \stage -> forAll streams (meansTheSame stage),
      testCase "every law has a text of its own" $ do
        let said = map lawText [minBound .. maxBound]
        nub said @?= said
        assertBool "empty" (not (any null said)),
      testGroup "algebra" algebra,
      testGroup
        "sections are all of the stream, in order"
        [ testProperty "one by one" . withMaxSuccess 5000 $ complete (\s -> ForEach s Identity Identity),
          testProperty "as two streams" . withMaxSuccess 5000 $ complete (\s -> If s Identity Identity),
          testProperty "true ones and false ones" . withMaxSuccess 2000 $
            forAll (splitters 4) $ \s -> forAll streams $ \text ->
              let ss = sections alphabet s (Bytes.unpack text)
               in ioProperty $ do
                    yes <- outputOf (If s Identity Suppress) text
                    no <- outputOf (If s Suppress Identity) text
                    pure ((yes, no) === (Bytes.pack (concatMap snd (filter fst ss)), Bytes.pack (concatMap snd (filter (not . fst) ss))))
        ]
    ]

outputOf :: Stage -> ByteString -> IO ByteString
outputOf stage text = bytesSource "some" [7, 3] text >>= \source -> runBytes (uncompiled stage) [source]

specified :: Stage -> ByteString -> ByteString
specified stage = Bytes.pack . stageOutput alphabet stage . Bytes.unpack

complete :: (Splitter -> Stage) -> Property
complete make = forAllShrink (splitters 5) shrinkSplitter $ \s -> forAll streams $ \text -> ioProperty ((=== text) <$> outputOf (make s) text)

-- Rewriting ------------------------------------------------------------------

meansTheSame :: Stage -> ByteString -> Property
meansTheSame stage text =
  counterexample (unlines (printStage stage : map show applied)) $
    counterexample "another meaning" (specified stage text === specified after text)
      .&&. counterexample "more could be applied" (snd (rewrite after) === [])
  where
    (after, applied) = rewrite stage

law :: Law -> TestTree
law which = testProperty (show which ++ ": " ++ lawText which) . withMaxSuccess 1500 $
  forAll (instances which) $ \stage -> forAll streams $ \text ->
    counterexample "it is not applied" (which `elem` map appliedLaw (snd (rewrite stage)))
      .&&. meansTheSame stage text

-- Stages to which a law applies.
instances :: Law -> Gen Stage
instances = \case
  DoubleNegation -> normal >>= inStage . Not . Not
  DeMorgan -> (\op a b -> op (Not a) (Not b)) <$> elements [And, Or] <*> positive <*> positive >>= inStage
  Idempotence -> (\op a -> op a a) <$> elements [And, Or] <*> normal >>= inStage
  Absorption -> do
    (outer, inner) <- elements [(And, Or), (Or, And)]
    a <- normalRows
    inside <- (elements [inner a, (`inner` a)] <*> normalRows) `suchThat` isNormal
    inStage (outer a inside)
  PlainExpression -> elements plainPatterns >>= inStage . Matching
  IdentityIsNeutral -> (\f t -> f t) <$> elements [(Identity :>), (:> Identity), (Identity :||), (:|| Identity)] <*> stages 3
  BothTheSame -> (\s t -> If s t t) <$> splitters 2 <*> elements ([Identity, Suppress] ++ map Translate namedTranslations ++ [Translate a :> Translate b | a <- namedTranslations, b <- namedTranslations])
  HavingOr -> do
    s <- normalRows
    t <- solid
    u <- solid `suchThat` (/= t)
    inStage (Or (Having s t) (Having s u))
  CountOfSelected -> oneof [(\s -> select s :> Count Row) <$> normalRows, (\s -> Fields [FieldRange 1 Nothing] Nothing " " :> select s :> Count Row) <$> (normalRows `suchThat` isNoConjunction)]
  SelectedTwice -> select <$> ((And <$> normalRows <*> normalRows) `suchThat` isNormal)
  FirstOfSelected -> ofSelected First
  LastOfSelected -> ofSelected Last
  where
    ofSelected some = do
      n <- chooseInt (0, 3)
      s <- normalRows `suchThat` (/= Row)
      elements [select (some n s), ForEach (some n s) (Number ":") Suppress]
    inStage s = elements [Count s, select s, ForEach s (Prepend "<") (Append "]")]
    select s = If s Identity Suppress
    normal = fst . rewriteSplitter <$> (chooseInt (0, 3) >>= splitters)
    normalRows = fst . rewriteSplitter <$> (chooseInt (0, 2) >>= rowSplitters)
    isNormal = null . snd . rewriteSplitter
    positive =
      normal `suchThat` \case
        Not _ -> False
        _ -> True
    isNoConjunction = \case
      And _ _ -> False
      _ -> True
    solid = oneof [pure Row, Runs <$> byteSets, Substring CaseMatters <$> (texts `suchThat` (not . Bytes.null)), Not . Runs <$> byteSets]

plainPatterns :: [Pattern]
plainPatterns = unsafePerformIO (mapM (\t -> newPattern CaseMatters t >>= either fail pure) ["a", "b", "ab", "aa", "aba", "b b", "1", " ", "a~", "A-b", "-"])
{-# NOINLINE plainPatterns #-}

-- Algebra --------------------------------------------------------------------

-- What the sections are, to the last empty one.
sameSections :: Splitter -> Splitter -> ByteString -> Property
sameSections a b text = counterexample (printSplitter a ++ "\n" ++ printSplitter b) . ioProperty $ do
  as <- outputOf (marked a) text
  bs <- outputOf (marked b) text
  pure (as === bs)
  where
    marked s = ForEach s (Prepend "<" :> Append ">") (Prepend "[" :> Append "]")

algebra :: [TestTree]
algebra =
  [ one "not not s = s" (\s -> (Not (Not s), s)),
    two "not (s and t) = not s or not t" (\s t -> (Not (And s t), Or (Not s) (Not t))),
    two "not (s or t) = not s and not t" (\s t -> (Not (Or s t), And (Not s) (Not t))),
    one "s and s = s" (\s -> (And s s, s)),
    one "s or s = s" (\s -> (Or s s, s)),
    two "s and t = t and s" (\s t -> (And s t, And t s)),
    two "s or t = t or s" (\s t -> (Or s t, Or t s)),
    three "(s and t) and u = s and (t and u)" (\s t u -> (And (And s t) u, And s (And t u))),
    three "(s or t) or u = s or (t or u)" (\s t u -> (Or (Or s t) u, Or s (Or t u))),
    rows2 "s and (s or t) = s, rows" (\s t -> (And s (Or s t), s)),
    rows2 "s or (s and t) = s, rows" (\s t -> (Or s (And s t), s)),
    three "s and (t or u) = s and t or s and u" (\s t u -> (And s (Or t u), Or (And s t) (And s u))),
    testProperty "first 0 s and last 0 s have no true section" . withMaxSuccess 400 $
      forAllShrink gen shrinkSplitter $ \s -> forAll streams $ \text ->
        ioProperty ((=== ["0\n", "0\n"]) <$> mapM (\f -> outputOf (Count (f 0 s)) text) [First, Last]),
    two "s having t having t = s having t" (\s t -> (Having (Having s t) t, Having s t)),
    three "s having t having u = s having u having t" (\s t u -> (Having (Having s t) u, Having (Having s u) t)),
    one "first 2 first 3 s = first 2 s" (\s -> (First 2 (First 3 s), First 2 s)),
    one "last 1 last 2 s = last 1 s" (\s -> (Last 1 (Last 2 s), Last 1 s)),
    one "prefix prefix s = prefix s" (\s -> (Prefix (Prefix s), Prefix s)),
    one "suffix suffix s = suffix s" (\s -> (Suffix (Suffix s), Suffix s))
  ]
  where
    one name f = testProperty name . withMaxSuccess 400 $ forAllShrink gen shrinkSplitter $ \s -> forAll streams (uncurry sameSections (f s))
    two name f = testProperty name . withMaxSuccess 400 $ forAllShrink gen shrinkSplitter $ \s -> forAllShrink gen shrinkSplitter $ \t -> forAll streams (uncurry sameSections (f s t))
    three name f = testProperty name . withMaxSuccess 400 $ forAll gen $ \s -> forAll gen $ \t -> forAll gen $ \u -> forAll streams (uncurry sameSections (f s t u))
    rows2 name f = testProperty name . withMaxSuccess 400 $ forAll (rowSplitters 2) $ \s -> forAll (rowSplitters 2) $ \t -> forAll streams (uncurry sameSections (f s t))
    gen = chooseInt (0, 3) >>= splitters
