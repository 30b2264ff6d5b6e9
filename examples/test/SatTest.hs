-- | The solver against exhaustive search; DIMACS files, and malformed ones.
module SatTest
  ( tests,
  )
where

import Data.ByteString.Builder (toLazyByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.Either (isLeft)
import Data.List (isInfixOf, nub)
import Data.Primitive.PrimArray (primArrayFromList)
import Rendezvous.Input (Complaint (..))
import Rendezvous.Sat qualified as Sat
import Rendezvous.Sat.Dimacs
import Rendezvous.Sat.Formula
import Rendezvous.Sat.Generate
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck hiding (generate)

tests :: TestTree
tests =
  testGroup
    "sat"
    [ testGroup "solver" solver,
      testGroup "generated" generated,
      testGroup "DIMACS" dimacs,
      testGroup "what is not DIMACS" invalid
    ]

-- All ways give this answer.
same :: Int -> Formula -> Property
same depth formula =
  conjoin [counterexample name (answer === expected) | (name, answer) <- others]
  where
    expected = Sat.sequential formula
    others = [("par/pseq", Sat.parPseq depth formula), ("det", Sat.det depth formula), ("leftmost", Sat.detLeftmost depth formula)]

-- Trying everything.
possible :: Dimacs -> Bool
possible (Dimacs variables clauses) = any ((`satisfies` clauses) . primArrayFromList) (mapM (const [0, 1]) [1 .. variables])

rightFor :: Dimacs -> Answer -> Bool
rightFor problem = \case
  Satisfiable model -> model `satisfies` dimacsClauses problem
  Unsatisfiable -> not (possible problem)

-- Clauses of every length, with repeated and contradicting literals, few enough to have models and enough to
-- have none.
problems :: Gen Dimacs
problems = do
  variables <- choose (1, 9)
  count <- choose (0, 5 * variables)
  clauses <- vectorOf count $ do
    size <- frequency [(1, pure 0), (6, pure 1), (20, pure 2), (120, pure 3), (20, choose (4, 6))]
    vectorOf size (choose (1, variables) >>= \v -> elements [v, negate v])
  pure (Dimacs variables clauses)

solver :: [TestTree]
solver =
  [ testProperty "as trying everything" $
      withMaxSuccess 2000 $
        forAll problems $ \problem ->
          let answer = Sat.sequential (formulaIn problem)
           in label (kind answer) (counterexample (show answer) (rightFor problem answer)),
    testProperty "all ways find the same model" $
      forAll problems $ \problem -> forAll (choose (0, 6)) $ \depth -> same depth (formulaIn problem),
    testCase "no clauses" $ Sat.sequential (formulaOf 2 []) @?= Satisfiable (primArrayFromList [0, 0]),
    testCase "no variables" $ Sat.det 3 (formulaOf 0 []) @?= Satisfiable (primArrayFromList []),
    testCase "an empty clause" $ Sat.det 3 (formulaOf 0 [[]]) @?= Unsatisfiable,
    testCase "a clause that always holds" $ Sat.det 3 (formulaOf 1 [[1, -1]]) @?= Satisfiable (primArrayFromList [0]),
    testCase "pigeons: seven into six holes" $ Sat.det 4 (pigeons 7 6) @?= Unsatisfiable,
    testCase "pigeons: six into six holes" $ case Sat.detLeftmost 4 (pigeons 6 6) of
      Satisfiable _ -> pure ()
      Unsatisfiable -> assertBool "each has a hole of its own" False
  ]
  where
    formulaIn (Dimacs variables clauses) = formulaOf variables clauses
    kind = \case
      Satisfiable _ -> "satisfiable"
      Unsatisfiable -> "unsatisfiable"
    pigeons n holes =
      formulaOf (n * holes) $
        [[place p h | h <- [1 .. holes]] | p <- [1 .. n]]
          <> [[negate (place p h), negate (place q h)] | h <- [1 .. holes], p <- [1 .. n], q <- [p + 1 .. n]]
      where
        place p h = (p - 1) * holes + h

generated :: [TestTree]
generated =
  [ testProperty "a core without a model, and a rest that does not help" $
      withMaxSuccess 10 $
        forAll (fromIntegral <$> choose (0, 1000 :: Int)) $ \seed ->
          let Dimacs variables clauses = generate (Recipe 60 400 30 240 seed)
           in counterexample (show seed) (same 3 (formulaOf variables clauses) .&&. Sat.sequential (formulaOf variables clauses) === Unsatisfiable),
    testProperty "a rest with a model" $
      withMaxSuccess 10 $
        forAll (fromIntegral <$> choose (0, 1000 :: Int)) $ \seed ->
          let problem = generate (Recipe 60 150 3 0 seed)
           in case Sat.sequential (formulaOf 60 (dimacsClauses problem)) of
                Satisfiable model -> counterexample "the model" (model `satisfies` dimacsClauses problem)
                Unsatisfiable -> counterexample "no model" False,
    testCase "the paper's sizes" $ do
      let Dimacs variables clauses = generate paperSized
      (variables, length clauses) @?= (600, 2500)
      assertBool "three different variables in each clause" (all ((== 3) . length . nub . map abs) clauses)
      assertBool "no variable is missing among the core's and the rest's" (length (nub (concatMap (map abs) clauses)) > 590),
    testCase "the same for the same seed, another for another" $ do
      generate paperSized @?= generate paperSized
      assertBool "two seeds" (generate paperSized /= generate paperSized {recipeSeed = 1})
  ]

dimacs :: [TestTree]
dimacs =
  [ testProperty "what is written is read" $
      forAll problems $ \problem -> forAll (listOf (elements ["c", "p cnf 1 1", "a comment", ""])) $ \comments ->
        parseDimacs (L.toStrict (toLazyByteString (renderDimacs comments problem))) === Right problem,
    testCase "comments, blank lines, clauses over lines" $
      reads' ["c first", "", "p cnf 3 3", "1 -2", "c between", "3 0 -1 0", "  2", "\t-3", "0", ""] @?= Right (Dimacs 3 [[1, -2, 3], [-1], [2, -3]]),
    testCase "SATLIB's end" $ reads' ["p cnf 1 1", "1 0", "%", "0", ""] @?= Right (Dimacs 1 [[1]]),
    testCase "carriage returns" $ reads' ["c dos\r", "p cnf 2 1\r", "1 2 0\r"] @?= Right (Dimacs 2 [[1, 2]]),
    testProperty "a model's lines" $
      forAll (choose (0, 400)) $ \variables ->
        let numbers = [if even n then n else negate n | n <- [1 .. variables]]
            ls = renderModel numbers
         in concatMap (map read . drop 1 . words) ls === numbers <> [0 :: Int] .&&. all ((<= 78) . length) ls .&&. all ((== "v ") . take 2) ls
  ]
  where
    reads' = parseDimacs . C.pack . unlines

invalid :: [TestTree]
invalid =
  [ wrong "nothing" [] (Nothing, "p cnf"),
    wrong "only comments" ["c p cnf 1 1"] (Nothing, "p cnf"),
    wrong "no header" ["c x", "1 0"] (Just 2, "p cnf"),
    wrong "another format" ["p wcnf 1 1", "1 0"] (Just 1, "p cnf"),
    wrong "a header cut short" ["p cnf 1", "1 0"] (Just 1, "p cnf"),
    wrong "fewer than no variables" ["p cnf -1 1", "1 0"] (Just 1, "variables"),
    wrong "clauses in words" ["p cnf 1 one", "1 0"] (Just 1, "clauses"),
    wrong "too many variables to hold" ["p cnf 99999999999 1", "1 0"] (Just 1, "variables"),
    wrong "two headers" ["p cnf 1 1", "p cnf 1 1", "1 0"] (Just 2, "second"),
    wrong "a variable beyond the last" ["p cnf 2 1", "1 -3 0"] (Just 2, "beyond"),
    wrong "no literal" ["p cnf 2 1", "", "1 x 0"] (Just 3, "literal"),
    wrong "a literal of 100 digits" ["p cnf 2 1", replicate 100 '1' <> " 0"] (Just 2, "literal"),
    wrong "no end" ["p cnf 2 2", "1 0", "1 2"] (Just 3, "0 at its end"),
    wrong "a clause too few" ["p cnf 2 2", "1 0"] (Just 1, "promises 2"),
    wrong "a clause too many" ["p cnf 2 1", "1 0", "2 0"] (Just 1, "promises 1"),
    testProperty "a good file with one word spoilt" $
      forAll (suchThat problems (not . null . dimacsClauses)) $ \problem ->
        let text = C.words (L.toStrict (toLazyByteString (renderDimacs [] problem)))
         in forAll (choose (2, length text - 1)) $ \i -> forAll (elements ["x", "1.5", "--1", "0x1", "99", "-99", "1e3"]) $ \bad ->
              let spoilt = C.unwords (take 2 text) <> C.pack " " <> C.unwords (take 2 (drop 2 (put i bad text))) <> C.pack "\n" <> C.unwords (drop 4 (put i bad text))
               in counterexample (C.unpack spoilt) (i == 2 && bad == "99" || isLeft (parseDimacs spoilt))
  ]
  where
    put i bad text = take i text <> [C.pack bad] <> drop (i + 1) text
    wrong what text (line, part) = testCase what $ case parseDimacs (C.pack (unlines text)) of
      Left (Complaint at message) -> do
        at @?= line
        assertBool (show message) (part `isInfixOf` message)
      Right read' -> assertBool (show read') False
